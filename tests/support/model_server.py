"""`epigram serve` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class ModelServer(NamedTuple):
    """Process of a server and its address."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def model_server(*arguments: object, **environment: str) -> Iterator[ModelServer]:
    """Start `epigram serve` with these arguments on a free port; at the end it is killed unless it has ended."""
    command = [sys.executable, "-m", "epigram.cli", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http://127.0.0.1:" in line, process.communicate(timeout=60)
        yield ModelServer(process, line.split()[-1])
    finally:
        process.kill()
        process.communicate()
