"""The server's answers follow its schema, openapi.json: Schemathesis sends requests that fit it, and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("prometheus_client", reason="requires the extra serve")

import schemathesis
from schemathesis import GenerationMode

from tests.support.linear_models import TRAIN, svm
from tests.support.model_server import model_server

pytestmark = pytest.mark.extended
OPERATIONS = ["GET /healthz", "GET /metrics", "GET /readyz", "GET /v1/models", "POST /v1/explain", "POST /v1/predict"]


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with model_server(svm(tmp_path_factory.mktemp("svm"), "en", TRAIN["en"]), "--max-characters=200") as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        found = [result.ok() for result in schema.get_all_operations()]
        yield {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def test_the_schema_has_these_operations(operations: dict[str, Any]) -> None:
    assert sorted(operations) == OPERATIONS


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name in OPERATIONS for mode in GenerationMode if name.startswith("POST") or mode.is_positive],
)
def test_every_answer_follows_the_schema(operations: dict[str, Any], name: str, mode: GenerationMode) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operations[name].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(timeout=60)

    check()
