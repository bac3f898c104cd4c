"""Notices to the address in PITHY_WEBHOOK, through a door on this machine.

The address is a secret. Prefect would keep it in its database and tell it to whoever asks its API, so Prefect is told
of the door alone; only the process that serves knows what is behind it.
"""

from __future__ import annotations

import hmac
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

from pithy.display import echo
from pithy.errors import ParameterError
from pithy.values import is_web_address

LONGEST = 4_000  # bytes of a notice
DIGITS = 10  # of its length
DELAYS = (0.0, 5.0, 30.0)  # seconds before each try
TIMEOUT = 10.0


@contextmanager
def door(address: str) -> Iterator[str]:
    """An address on this machine that passes on the text of a POST to `address`, as `{"text": …}`.

    Raises ParameterError where `address` is none of http or https.
    """
    if not is_web_address(address):
        raise ParameterError("PITHY_WEBHOOK is no address: http://… or https://… is allowed")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # below, it writes every address that it asks
    path = f"/{secrets.token_urlsafe()}"

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            known = hmac.compare_digest(self.path.encode(), path.encode()) and length.isdecimal()
            if known:
                text = self.rfile.read(min(int(length[:DIGITS]), LONGEST)).decode(errors="replace")
                Thread(target=_send, args=(address, text), daemon=True).start()
            self.send_response(HTTPStatus.ACCEPTED if known else HTTPStatus.NOT_FOUND)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing: the path is as good as a password."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as opened:
        Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        yield f"http://127.0.0.1:{opened.server_port}{path}"
        opened.shutdown()


def _send(address: str, text: str) -> None:
    """Post the notice; what goes wrong is said without the address."""
    import httpx

    why = ""
    for delay in DELAYS:
        time.sleep(delay)
        try:
            answer = httpx.post(address, json={"text": text}, timeout=TIMEOUT)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # the last one: a host that is no name
            why = type(error).__name__
            continue
        if answer.is_success:
            return
        why = f"HTTP {answer.status_code}"
    echo(f"a notice could not be sent to PITHY_WEBHOOK: {why}", file=sys.stderr, flush=True)
