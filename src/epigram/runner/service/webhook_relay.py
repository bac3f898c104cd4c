"""Failure notices to the address in EPIGRAM_WEBHOOK, through a relay on this machine.

The address is a secret. In a block of Prefect, it would be in the database, and every client of the API could read it
(`include_secrets`). Prefect therefore gets only the relay's URL; only the process that runs the service knows the
address behind it.
"""

from __future__ import annotations

import hmac
import html
import logging
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from epigram.core.config_types import is_http_url
from epigram.core.errors import ParameterError
from epigram.process.display import echo, printable

MAX_MESSAGE_BYTES = 4_000  # maximum size of a notice in bytes
MAX_LENGTH_DIGITS = 10  # digits of Content-Length that are read
RETRY_DELAYS = (0.0, 5.0, 30.0)  # seconds before each try
TIMEOUT = 10.0


@contextmanager
def start_relay(address: str) -> Iterator[str]:
    """Run a relay on this machine that forwards the text of a POST to `address`, as `{"text": …}`.

    Yields the relay's URL. Raises ParameterError if `address` is not an http or https URL.
    """
    if not is_http_url(address):
        raise ParameterError("EPIGRAM_WEBHOOK is not a valid URL; expected http://… or https://…")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at lower levels, httpx logs every URL
    path = f"/{secrets.token_urlsafe()}"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            accepted = hmac.compare_digest(self.path.encode(), path.encode()) and length.isdecimal()
            if accepted:
                text = self.rfile.read(min(int(length[:MAX_LENGTH_DIGITS]), MAX_MESSAGE_BYTES)).decode(errors="replace")
                Thread(target=_send, args=(address, text), daemon=True).start()
            self.send_response(HTTPStatus.ACCEPTED if accepted else HTTPStatus.NOT_FOUND)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing: the path is a secret."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{path}"
        server.shutdown()


def _send(address: str, text: str) -> None:
    """Post the notice, with retries; print a failure without the address.

    Control characters are removed, and `&`, `<` and `>` escaped, as Slack needs it: otherwise a row or a label in the
    message could become a link or a mention. The last line is the address of the run, in which `&` stays.
    """
    import httpx

    message, line, run = printable(text).rpartition("\n")
    notice = "".join([html.escape(message, quote=False), line, run.replace("<", "&lt;").replace(">", "&gt;")])
    reason = ""
    for delay in RETRY_DELAYS:
        time.sleep(delay)
        try:
            response = httpx.post(address, json={"text": notice}, timeout=TIMEOUT)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: invalid host name
            reason = type(error).__name__
            continue
        if response.is_success:
            return
        reason = f"HTTP {response.status_code}"
    echo(f"cannot send a failure notice to EPIGRAM_WEBHOOK: {reason}", file=sys.stderr, flush=True)
