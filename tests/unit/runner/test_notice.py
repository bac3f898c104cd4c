"""Tests of the webhook relay: it answers every request and reveals nothing of the address behind it."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from epigram.runner.service import notices


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (b"/\xe9", b"Content-Length: 0\r\n", b"404"),
        (b"PATH", b"", b"404"),
        (b"PATH", b"Content-Length: -1\r\n", b"404"),
        (b"PATH", b"Content-Length: x\r\n", b"404"),
        (b"PATH", b"Content-Length: 1" + b"0" * 5000 + b"\r\n", b"202"),
        (b"PATH", b"Content-Length: 2\r\n", b"202"),
    ],
)
def test_a_request_that_is_none_is_answered(
    path: bytes, headers: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notices, "_send", lambda address, text: None)
    with notices.start_relay("http://127.0.0.1:9/secret") as address:
        own = urlsplit(address)
        with socket.create_connection((own.hostname, own.port), timeout=10) as line:
            line.sendall(b"POST " + path.replace(b"PATH", own.path.encode()) + b" HTTP/1.1\r\n" + headers + b"\r\nhi")
            line.shutdown(socket.SHUT_WR)
            assert line.recv(12) == b"HTTP/1.0 " + status
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "x is Failed\nrow 3: <!channel> <http://evil|R&D>\x1b[31m\u202e\x00\nhttp://127.0.0.1:4200/run?a=1&b=2",
            "x is Failed\nrow 3: &lt;!channel&gt; &lt;http://evil|R&amp;D&gt;\nhttp://127.0.0.1:4200/run?a=1&b=2",
        ),
        ("cut off in a row\n<!channel>", "cut off in a row\n&lt;!channel&gt;"),
        ('one line & "more"', 'one line & "more"'),
    ],
)
def test_rows_and_labels_in_a_notice_are_plain_text(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, str]] = []

    def post(address: str, *, json: dict[str, str], timeout: float) -> httpx.Response:
        sent.append(json)
        return httpx.Response(200)

    monkeypatch.setattr(httpx, "post", post)
    notices._send("http://127.0.0.1:9/secret", text)
    assert sent == [{"text": expected}]


def test_an_address_whose_host_is_no_name_is_said_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notices, "RETRY_DELAYS", (0.0,))
    notices._send("http://a..b/secret", "a text")
    assert capsys.readouterr().err == "cannot send a failure notice to EPIGRAM_WEBHOOK: UnicodeError\n"
