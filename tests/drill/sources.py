"""Faults of a download source: it hangs, resets, returns 500, sends a wrong length or other bytes."""

from __future__ import annotations

import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.drill.bench import Bench
from tests.drill.evidence import answered
from tests.drill.faults import Injection, fault
from tests.drill.place import moment

PATIENCE = 1.5  # seconds of silence of a hanging server; the stage's timeout is one second


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
        cut = start + int((len(content) - start) * self.server.cut)
        if manner == "silent":
            time.sleep(PATIENCE)
        elif manner in {"500", "503", "429", "403"}:
            self.send_error(int(manner))
        elif manner == "garbage":
            self.wfile.write(bytes(200))
        elif start >= len(content):
            self.send_error(416)
        elif manner == "other bytes":
            self._send(start, len(content) - start, bytes(reversed(content[start:])))
        elif manner == "too long":
            self._send(start, len(content) - start + 100, content[start:])
        elif manner == "too short":
            self._send(start, cut - start, content[start:cut])
        elif manner == "wrong range":
            self._send(start + 1, len(content) - start, content[start:])
        else:
            self._send(
                start, len(content) - start, content[start : cut if manner in {"hangs", "resets", "slow"} else None]
            )
            self._go_wrong(manner, content[cut:])

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


MANNERS = {
    "silent": {69},
    "hangs": {69},
    "resets": {69},
    "500": {69},
    "503": {69},
    "429": {69},
    "403": {69},
    "garbage": {69},
    "too long": {69},
    "too short": {65},
    "other bytes": {65},
    "wrong range": {69},
    "slow": set(),
}


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


@fault("a source that misbehaves", 22)
def misbehaving(bench: Bench, rng: random.Random) -> Injection:
    manner, bad = rng.choice(sorted(MANNERS)), rng.randint(1, 4)
    bench.forget({"download"})
    with served(bench, manner, bad, rng.random()) as source:
        ended = bench.stage("download").wait()
        losses = [] if ended.code == 0 or ended.said.startswith("error: ") else [f"no clear line: {ended.said[-300:]}"]
    return Injection(f"{manner}, {bad} times", source.misbehaved > 0, ended, {0} | MANNERS[manner], losses)


@fault("kill -9 in a download", 4)
def killed(bench: Bench, rng: random.Random) -> Injection:
    """Kill a download: the received part is kept, and the next run continues from it."""
    bench.forget({"download"})
    with served(bench, "slow", 9, rng.uniform(0.0, 0.9)) as source:
        running = bench.stage("download")
        asked = running.until(lambda _: source.misbehaved > 0)
        running.after(moment(rng, 1.0))
        observed = answered(running.send(signal.SIGKILL) and asked, running.wait(), {-9})
        again = bench.stage("download").wait()
    return Injection("a slow source", observed, again, {0})
