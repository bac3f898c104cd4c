"""The server's endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from epigram.inference.server.errors import RETRY_AFTER, RequestError, error_body
from epigram.inference.server.gate import Gate
from epigram.inference.server.messages import (
    ErrorAnswer,
    ExplainAnswer,
    ModelsAnswer,
    PredictAnswer,
    StatusAnswer,
    explain_schema,
    read_explain_request,
    read_request,
    request_schema,
)
from epigram.inference.server.metrics import ServerMetrics
from epigram.inference.server.page import page
from epigram.inference.server.served_model import ServedModel
from epigram.inference.server.settings import ServerSettings

JSON = "application/json"
BODY_SECONDS = 30.0  # within which a body must arrive


def create_app(models: Sequence[ServedModel], settings: ServerSettings) -> FastAPI:
    """Return the application that serves `models`; the first one is the default."""
    metrics = ServerMetrics(models)
    app = FastAPI(
        title="epigram", version=version("epigram"), docs_url=None, redoc_url=None, lifespan=_follow(models, settings)
    )
    app.add_exception_handler(RequestError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_error)
    app.add_exception_handler(Exception, _answer_failure)
    _add_information(app, models, metrics, settings)
    _add_predict(app, {model.name: model for model in models}, settings)
    app.add_middleware(Gate, token=settings.token, observe=metrics.observe)
    return app


def _add_information(
    app: FastAPI, models: Sequence[ServedModel], metrics: ServerMetrics, settings: ServerSettings
) -> None:
    """Add the page, health, readiness, metrics and the list of models."""
    content, headers = page()

    @app.get("/", include_in_schema=False)
    async def try_texts() -> Response:
        return Response(content, media_type="text/html", headers=headers)

    @app.get("/healthz", responses={200: {"model": StatusAnswer}})
    async def health() -> Response:
        """Answer as long as the server runs."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    @app.get("/readyz", responses={200: {"model": StatusAnswer}, 503: {"model": ErrorAnswer}})
    async def readiness() -> Response:
        """Answer 503 while the queue of a model is full."""
        for model in models:
            if model.batcher.waiting >= settings.max_waiting:
                raise RequestError(503, f"the queue of {model.name} is full", RETRY_AFTER)
        return Response(b'{"status":"ready"}', media_type=JSON)

    @app.get("/metrics", response_class=Response, dependencies=_token(settings), responses=_errors(401))
    def prometheus() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models", dependencies=_token(settings), responses={200: {"model": ModelsAnswer}, **_errors(401)})
    async def list_models() -> Response:
        """Return the models with their labels."""
        return Response(to_json({"models": [model.describe() for model in models]}), media_type=JSON)


def _add_predict(app: FastAPI, models: dict[str, ServedModel], settings: ServerSettings) -> None:
    default = next(iter(models))

    def find(name: str) -> ServedModel:
        if (found := models.get(name or default)) is None:
            raise RequestError(404, f"unknown model {name!r}; the server has {', '.join(models)}")
        return found

    @app.post(
        "/v1/predict",
        dependencies=_token(settings),
        responses={200: {"model": PredictAnswer}, **_errors(401, 404, 408, 413, 415, 422, 503)},
        openapi_extra=request_schema(list(models), settings),
    )
    async def predict(request: Request) -> Response:
        """Predict the labels of one text or several."""
        texts, name = read_request(await _read_body(request, settings.max_bytes), settings)
        model = find(name)
        records = await model.batcher.predict(texts) if texts else []
        return Response(to_json({"model": model.name, "predictions": records}), media_type=JSON)

    @app.post(
        "/v1/explain",
        dependencies=_token(settings),
        responses={200: {"model": ExplainAnswer}, **_errors(401, 404, 408, 413, 415, 422, 503)},
        openapi_extra=explain_schema(list(models)),
    )
    async def explain(request: Request) -> Response:
        """Score the words of a text: how much each speaks for the label."""
        asked = read_explain_request(await _read_body(request, settings.max_bytes))
        model = find(asked.model)
        found = await model.batcher.run(partial(model.explain, asked.text, asked.label or None))
        return Response(to_json({"model": model.name, **found}), media_type=JSON)


def _token(settings: ServerSettings) -> list[Any]:
    """Return what tells openapi.json that a token is needed; `Gate` checks it."""
    return [Depends(HTTPBearer(auto_error=False))] if settings.token else []


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorAnswer} for status in statuses}


async def _read_body(request: Request, most: int) -> bytes:
    """Return the body of a JSON request.

    A page of another site cannot send this type without asking, and browsers then ask in vain.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise RequestError(415, f"the header content-type is not {JSON}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise RequestError(413, f"the body is too large; at most {most:,} bytes are allowed")
    except TimeoutError:
        raise RequestError(408, f"the body has not arrived within {BODY_SECONDS:.0f} seconds") from None
    return bytes(body)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError | HTTPException)
    status = error.status if isinstance(error, RequestError) else error.status_code
    text = str(error) if isinstance(error, RequestError) else f"{error.detail}: {request.method} {request.url.path}"
    return Response(error_body(status, text), status, error.headers, JSON)


async def _answer_failure(request: Request, error: Exception) -> Response:
    """Answer an internal error; the server prints its traceback."""
    return Response(error_body(500, "internal error; the log of the server has the reason"), 500, media_type=JSON)


def _follow(models: Sequence[ServedModel], settings: ServerSettings) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(model.follow(settings.reload_seconds)) for model in models]
        yield
        for task in tasks:
            task.cancel()
        for model in models:
            await asyncio.to_thread(model.batcher.close)

    return lifespan
