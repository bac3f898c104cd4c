"""Download source that hangs, resets, answers with an error, or sends a wrong length or other bytes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.drill.bench import Bench

PATIENCE = 1.5  # seconds of silence of a hanging server; the stage's timeout is one second
UNAVAILABLE = ("silent", "hangs", "resets", "500", "503", "429", "403", "garbage", "too long", "wrong range")
MANNERS = {name: {69} for name in UNAVAILABLE}  # manner → exit codes of a download that gives up
MANNERS |= {"too short": {65}, "other bytes": {65}, "slow": set()}


class Source(ThreadingHTTPServer):
    """HTTP server for one file; its first `bad` responses misbehave as `manner` and are counted in `misbehaved`."""

    daemon_threads = True

    def __init__(self, file: Path, manner: str, bad: int, cut: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.manner, self.bad, self.cut = file.read_bytes(), manner, bad, cut
        self.count, self.misbehaved = threading.Lock(), 0

    def manner_now(self) -> str:
        """Return how this response misbehaves, or "right"."""
        with self.count:
            if self.misbehaved == self.bad:
                return "right"
            self.misbehaved += 1
            return self.manner

    def handle_error(self, request: object, address: object) -> None:
        """Ignore clients that disconnect, which is part of the drill."""


class Handler(BaseHTTPRequestHandler):
    """Request handler of a Source."""

    server: Source

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        manner, content = self.server.manner_now(), self.server.content
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        rest = content[start:]
        cut = int(len(rest) * self.server.cut)
        if manner == "silent":
            time.sleep(PATIENCE)
        elif manner.isdecimal():
            self.send_error(int(manner))
        elif manner == "garbage":
            self.wfile.write(bytes(200))
        elif not rest:
            self.send_error(416)
        else:
            length = {"too long": len(rest) + 100, "too short": cut}.get(manner, len(rest))
            part = rest[:cut] if manner in {"too short", "hangs", "resets", "slow"} else rest
            body = rest[::-1] if manner == "other bytes" else part
            self._send(start + (manner == "wrong range"), length, body)
            self._go_wrong(manner, rest[cut:])

    def _send(self, start: int, length: int, content: bytes) -> None:
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(length))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{start + length - 1}/{len(self.server.content)}")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _go_wrong(self, manner: str, rest: bytes) -> None:
        if manner == "hangs":
            time.sleep(PATIENCE)
        elif manner == "resets":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif manner == "slow":
            for place in range(0, len(rest), 4096):
                time.sleep(0.1)
                self.wfile.write(rest[place : place + 4096])


@contextmanager
def served(bench: Bench, manner: str, bad: int, cut: float) -> Iterator[Source]:
    """Run a source that misbehaves as given while the context is open."""
    source = Source(Path(bench.mirror) / "drill.jsonl", manner, bad, cut)
    threading.Thread(target=source.serve_forever, daemon=True).start()
    before, bench.mirror = bench.mirror, f"http://127.0.0.1:{source.server_address[1]}"
    try:
        yield source
    finally:
        bench.mirror = before
        source.shutdown()
        source.server_close()
