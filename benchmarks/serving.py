"""`epigram serve` against LitServe with the same model: texts per second and latency of 1, 8 and 64 clients.

    python -m benchmarks.run serving
    python -m benchmarks.serving --soak      # 200,000 requests to one server, with its memory before and after

The model is the one that `epigram.fit` chooses for 500 texts in a few seconds. A client keeps its connection, sends one
text, and the next one after the answer. All clients are one process, which shares the machine with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks import corpora
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan

ROWS, BUDGET = 500, "10s"  # texts of the fit, and its time
CLIENTS, SECONDS, ROUNDS = (1, 8, 64), 6.0, 3
SOAK, SOAK_CLIENTS, WARM = 200_000, 32, 20_000
SETTINGS = {"rows": ROWS, "budget": BUDGET, "clients": list(CLIENTS), "seconds": SECONDS, "threads": "all"}
# settings of LitServe: without batches and with them, with one process and with two; each row counts its best one
LITSERVE = {"LitServe": (1, 1), "LitServe, batches": (1, 64), "LitServe, 2 processes, batches": (2, 64)}
API = """
import sys
import litserve
import epigram

class Api(litserve.LitAPI):
    def setup(self, device):
        self.model = epigram.load(sys.argv[1])
    def decode_request(self, request):
        return request["text"]
    def predict(self, texts):
        listed = [texts] if isinstance(texts, str) else texts
        answers = [self.model.record(answer) for answer in self.model.predict(listed)]
        return answers[0] if isinstance(texts, str) else answers
    def encode_response(self, output):
        return output

if __name__ == "__main__":
    port, workers, batch = map(int, sys.argv[2:])
    api = Api(max_batch_size=batch, batch_timeout=0.005, api_path="/v1/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=workers)
    server.run(port=port, generate_client_file=False, log_level="error")
"""


class Load(NamedTuple):
    """Texts per second, and the latency in milliseconds that 99% of the requests do not exceed."""

    rate: float
    p99: float


def model_of(scratch: Path, rows: int = ROWS, budget: str = BUDGET) -> tuple[Path, list[str]]:
    """Return the folder of a fitted model, and other texts."""
    import epigram

    frame = corpora.titles(scratch, corpora.ENGLISH).sample(fraction=1.0, shuffle=True, seed=0)  # it is sorted by label
    texts, labels = frame["text"].to_list(), frame["label"].to_list()
    folder = scratch / "served"
    epigram.fit(texts[:rows], labels[:rows], budget=budget).save(folder)
    return folder, texts[rows : rows + 4_000]


def free_port() -> int:
    """Return a port that no program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, yield it when it answers, and stop it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while asyncio.run(load(port, ["a text"], 1, requests=1, fails=True)) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {' '.join(command)}")
            time.sleep(0.3)
        yield process
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def epigram_server(folder: Path, port: int) -> list[str]:
    """Return the command of our server."""
    return [sys.executable, "-m", "epigram.cli", "serve", str(folder), "--port", str(port)]


def litserve_server(folder: Path, port: int, workers: int, batch: int) -> list[str]:
    """Return the command of LitServe."""
    script = folder.with_name("lit.py")
    script.write_text(API, encoding="utf-8")
    return [sys.executable, str(script), *map(str, (folder, port, workers, batch))]


async def load(
    port: int, texts: Sequence[str], clients: int, *, seconds: float = 0.0, requests: int = 0, fails: bool = False
) -> Load | None:
    """Send texts from `clients` for some `seconds`, or a number of `requests`; None if `fails` and no one listens."""
    times: list[float] = []
    source, started = cycle([_request(text) for text in texts]), time.perf_counter()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while len(times) < requests or time.perf_counter() - started < seconds:
            begun = time.perf_counter()
            writer.write(next(source))
            await _answer(reader)
            times.append(time.perf_counter() - begun)
        writer.close()

    try:
        await asyncio.gather(*(client() for _ in range(clients)))
    except OSError:
        if fails:
            return None
        raise
    return Load(len(times) / (time.perf_counter() - started), 1_000 * float(np.quantile(times, 0.99)))


def _request(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """Return the body of an answer. Raises OSError for another status than 200."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        raise OSError("the connection was closed") from None
    if not head.startswith(b"HTTP/1.1 200"):
        raise OSError(head.partition(b"\r\n")[0].decode())
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    return await reader.readexactly(int(fields[b"content-length"]))


def measured(command: Sequence[str], port: int, texts: Sequence[str], seconds: float) -> dict[int, Load]:
    """Return what a server does for each number of clients, after a warm-up."""
    with running(command, port):
        asyncio.run(load(port, texts, max(CLIENTS), seconds=min(1.0, seconds)))
        found = {clients: asyncio.run(load(port, texts, clients, seconds=seconds)) for clients in CLIENTS}
    return {clients: each for clients, each in found.items() if each}


def rows(plan: Plan) -> list[Row]:
    """Return a row for each number of clients: texts per second, and the latency."""
    folder, texts = model_of(plan.scratch, 60, "1s") if plan.tiny else model_of(plan.scratch)
    peers = dict(plan.few(list(LITSERVE.items()))) if find_spec("litserve") else {}
    seconds = 0.3 if plan.tiny else SECONDS
    seen: dict[str, list[dict[int, Load]]] = {name: [] for name in ("epigram", *peers)}
    for _ in range(1 if plan.tiny else ROUNDS):
        for name, found in seen.items():
            port = free_port()
            command = litserve_server(folder, port, *peers[name]) if name in peers else epigram_server(folder, port)
            found.append(measured(command, port, texts, seconds))
    return [row for clients in CLIENTS for row in _rows(seen, clients)]


def _rows(seen: dict[str, list[dict[int, Load]]], clients: int) -> list[Row]:
    """Return the rate and the latency of a number of clients; the target is for the most clients."""
    work, most = f"HTTP, {clients} client{'s' if clients > 1 else ''}", clients == max(CLIENTS)
    rates = {name: Measured(tuple(each[clients].rate for each in found)) for name, found in seen.items()}
    times = {name: Measured(tuple(each[clients].p99 for each in found)) for name, found in seen.items()}
    return [
        Row(work, "texts/s", rates.pop("epigram"), rates, Reach("≥", 1.5, "ratio") if most else None),
        Row(
            f"{work}, 99% of the requests",
            "ms",
            times.pop("epigram"),
            times,
            Reach("≤", 1.0, "ratio") if most else None,
        ),
    ]


def soak(count: int) -> dict[str, float]:
    """Send `count` requests to one server; return the rate and the memory in MB after the warm-up and at the end."""
    with TemporaryDirectory() as place:
        folder, texts = model_of(Path(place))
        port = free_port()
        with running(epigram_server(folder, port), port) as server:
            asyncio.run(load(port, texts, SOAK_CLIENTS, requests=min(WARM, count)))
            before = _megabytes(server.pid)
            found = asyncio.run(load(port, texts, SOAK_CLIENTS, requests=count))
            assert found is not None
            return {"texts/s": found.rate, "p99 ms": found.p99, "MB before": before, "MB after": _megabytes(server.pid)}


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1_000


def main() -> None:
    """Print the figures of a soak."""
    parser = argparse.ArgumentParser(description="Send many requests to one server.")
    parser.add_argument("--soak", action="store_true", required=True)
    parser.add_argument("--requests", type=int, default=SOAK)
    print(json.dumps(soak(parser.parse_args().requests)))


if __name__ == "__main__":
    main()
