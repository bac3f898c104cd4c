"""Tests of the origin filter of the Prefect server: only requests to its own address pass."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from epigram.runner.service.server_app import OriginFilter

PROXY = "https://runs.example.org/api"


def answer(headers: dict[str, str], kind: str = "http", proxied: str = "") -> list[dict[str, Any]]:
    """Return what a server on port 4200 sends for a request with `headers`; `inner` means that the request passes."""
    sent: list[dict[str, Any]] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "inner"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "headers": raw, "server": ("127.0.0.1", 4200)}
    asyncio.run(OriginFilter(inner, proxied)(scope, None, send))
    return sent


OWN = [
    {},
    {"host": "127.0.0.1:4200"},
    {"host": "localhost:4200", "origin": "http://localhost:4200"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4200"},
    {"host": "[::1]:4200", "origin": "http://[::1]:4200"},
]
FOREIGN = [
    {"host": "127.0.0.1:4200", "origin": "https://evil.example"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4201"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4200.evil.example"},
    {"host": "127.0.0.1:4200", "origin": "http://evil.example/127.0.0.1:4200"},
    {"host": "127.0.0.1:4200", "origin": "null"},
    {"host": "127.0.0.1:4200", "origin": ""},
    {"host": "127.0.0.1:4200", "origin": "file://127.0.0.1:4200"},
    {"host": "evil.example:4200"},
    {"host": "evil.example"},
    {"host": "localhost"},
    {"host": "runs.example.org", "origin": "https://runs.example.org"},
]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("headers", OWN)
def test_a_request_of_its_own_pages_is_handed_on(headers: dict[str, str], kind: str) -> None:
    assert answer(headers, kind) == [{"type": "inner"}]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_foreign_request_is_refused(headers: dict[str, str]) -> None:
    start, body = answer(headers)
    assert (start["status"], body["body"][:8]) == (403, b"rejected")
    assert answer(headers, "websocket") == [{"type": "websocket.close", "code": 1008}]


def test_one_foreign_header_of_two_is_enough() -> None:
    def twice(first: str, second: str) -> list[str]:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def inner(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "inner"})

        raw = [(b"origin", first.encode()), (b"origin", second.encode())]
        asyncio.run(OriginFilter(inner)({"type": "http", "headers": raw, "server": ("127.0.0.1", 4200)}, None, send))
        return [message["type"] for message in sent]

    assert twice("http://localhost:4200", "https://evil.example")[0] == "http.response.start"
    assert twice("https://evil.example", "http://localhost:4200")[0] == "http.response.start"


def test_the_proxy_s_address_is_allowed_where_it_is_named() -> None:
    through = {"host": "runs.example.org", "origin": "https://runs.example.org"}
    assert answer(through, proxied=PROXY) == [{"type": "inner"}]
    assert answer({"host": "127.0.0.1:4200", "origin": "https://runs.example.org"}, proxied=PROXY) == [
        {"type": "inner"}
    ]
    assert answer({"origin": "https://evil.example"}, proxied=PROXY)[0]["status"] == 403


def test_start_up_and_shut_down_are_handed_on() -> None:
    assert answer({"host": "evil.example"}, "lifespan") == [{"type": "inner"}]
