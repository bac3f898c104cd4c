"""Settings of the model server."""

from __future__ import annotations

from dataclasses import dataclass

MAX_WORKERS = 4  # Python's own part of a prediction runs in one thread at a time


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Address, limits and token of the server; an empty `token` means that everybody may predict.

    `max_waiting` is the number of requests that may wait for one model, whose `workers` threads share the processor's
    `threads`.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    max_texts: int = 256
    max_characters: int = 10_000
    max_bytes: int = 1 << 20
    max_waiting: int = 512
    batch_texts: int = 64
    reload_seconds: float = 1.0
    threads: int = 1

    @property
    def workers(self) -> int:
        """Number of batches that a model predicts side by side."""
        return min(self.threads, MAX_WORKERS)
