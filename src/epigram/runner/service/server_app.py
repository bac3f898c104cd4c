"""Prefect's server, restricted to requests for its own address: uvicorn --factory …server_app:create_app.

A page of another site in the same browser cannot use the server. Without a password, Prefect's own settings do not
suffice: its CSRF protection and its allowed origins apply neither to WebSockets nor to a name of another site that
resolves to this machine.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from epigram.runner.service import prefect_adapter

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PUBLIC_URL = "PREFECT_UI_API_URL"  # the URL that browsers use; behind a reverse proxy, the proxy's URL

Scope = dict[str, Any]


def create_app() -> Any:
    """Return the server with its dashboard."""
    return OriginFilter(prefect_adapter.server_app(embedded=False), os.environ.get(PUBLIC_URL, ""))


def create_embedded_app() -> Any:
    """Return the server of one run."""
    return OriginFilter(prefect_adapter.server_app(embedded=True), os.environ.get(PUBLIC_URL, ""))


class OriginFilter:
    """ASGI middleware that rejects requests with a foreign Host or Origin header (403) before Prefect's code runs.

    A foreign Origin is a page of another site (CSRF, and any WebSocket). A foreign Host is a name of another site that
    resolves to this machine (DNS rebinding). This machine's loopback names with the server's own port and the host of
    the URL `public_url` are allowed.
    """

    def __init__(self, app: Any, public_url: str = "") -> None:
        self.app, self.public_host = app, urlsplit(public_url).netloc.lower()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Reject a request, or pass it to the application."""
        if scope["type"] in {"http", "websocket"}:
            hosts = [*(f"{name}:{scope['server'][1]}" for name in LOOPBACK), *filter(None, [self.public_host])]
            own = {b"host": hosts, b"origin": [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]}
            headers = [(name, value) for name, value in scope["headers"] if name in own]
            if not all(value.decode("latin-1").lower() in own[name] for name, value in headers):
                await _reject(scope["type"], send)
                return
        await self.app(scope, receive, send)


async def _reject(kind: str, send: Any) -> None:
    if kind == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = b"rejected: the Host or Origin header does not match this server\n"
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
