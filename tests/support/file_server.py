"""Local file server whose responses fail on demand."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HALVES = {"cut", "reset", "drip", "cut, no length"}  # troubles after half of a file


class Server(ThreadingHTTPServer):
    """Server of `files` with `headers`; each request of a path consumes one of its `troubles` first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.redirects: dict[str, str] = {}
        self.troubles: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str | None]] = []  # paths and ranges of the requests
        self.done = threading.Event()

    def address(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_port}/{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.asked.append((path, self.headers.get("Range")))
        waiting = self.server.troubles.get(path, [])
        trouble = waiting.pop(0) if waiting else "none"
        if trouble.isdigit():
            return self.send_error(int(trouble))
        if trouble == "hang":
            self.server.done.wait(5)
            return None
        if path in self.server.redirects:
            return self.redirect(self.server.redirects[path])
        if path not in self.server.files:
            return self.send_error(404)
        return self.answer(self.server.files[path], self.server.headers.get(path, {}), trouble)

    def redirect(self, location: str) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, content: bytes, headers: dict[str, str], trouble: str) -> None:
        start = 0 if trouble == "no range" else int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start or trouble == "unasked range" else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        if start or trouble == "unasked range":
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if "no length" not in trouble:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        half = start + (len(content) - start) // 2
        self.wfile.write(content[start : half if trouble in HALVES else len(content)])
        if trouble == "drip":
            self.drip(content[half:])
        if trouble == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return None

    def drip(self, content: bytes) -> None:
        """Send ten bytes every 20 ms: 500 bytes per second."""
        for place in range(0, len(content), 10):
            self.wfile.write(content[place : place + 10])
            self.wfile.flush()
            time.sleep(0.02)

    def log_message(self, format: str, *values: Any) -> None:
        """Do not log requests."""


@contextmanager
def serving() -> Iterator[Server]:
    """Yield a server that runs until the block ends."""
    with Server() as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.done.set()
        running.shutdown()
