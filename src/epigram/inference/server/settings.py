"""Settings of the model server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Address, limits and token of the server; an empty `token` means that everybody may predict.

    `max_waiting` is the number of requests that may wait for one model.
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
