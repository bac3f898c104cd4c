"""The first thing that a request meets: its token is checked, its time is measured."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epigram.inference.server.errors import error_body

OPEN = {"/", "/healthz", "/readyz", "/openapi.json"}  # need no token
PATHS = OPEN | {"/metrics", "/v1/models", "/v1/predict", "/v1/explain"}


class Gate:
    """ASGI middleware: a request without the `token` gets 401, and each one is given to `observe`.

    `observe` gets the path, the status and the seconds. Unknown paths are "other": a client cannot add metrics.
    """

    def __init__(self, app: ASGIApp, *, token: str, observe: Callable[[str, int, float], None]) -> None:
        self.app, self.token, self.observe = app, token.encode(), observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            app = self.app if self._is_allowed(scope) else _refuse
            await app(scope, receive, send_and_note)
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"
            self.observe(path, status, time.perf_counter() - start)

    def _is_allowed(self, scope: Scope) -> bool:
        if not self.token or scope["path"] in OPEN:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    body = error_body(401, "the header authorization has no valid token: expected Bearer TOKEN")
    await Response(body, 401, {"www-authenticate": "Bearer"}, "application/json")(scope, receive, send)
