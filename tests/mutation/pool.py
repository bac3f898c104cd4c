"""Parallel jobs, with one tree per worker."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.forks import Job
from tests.mutation.tree import Tree

Steps = Generator[Job, int, None]  # yields jobs and receives their exit codes


@contextmanager
def trees(count: int) -> Iterator[list[Tree]]:
    """Create copies of the repository, and delete them on exit."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        yield [Tree(Path(folder) / str(index)) for index in range(count)]


def work(tasks: Iterable[Callable[[Tree], Steps]], places: list[Tree]) -> None:
    """Run all tasks; each tree runs one at a time."""
    running: dict[int, tuple[Steps, Job]] = {}
    try:
        _work(iter(tasks), places, running)
    finally:
        for _, job in running.values():
            job.kill()


def _work(
    waiting: Iterator[Callable[[Tree], Steps]], places: list[Tree], running: dict[int, tuple[Steps, Job]]
) -> None:
    while True:
        for index, tree in enumerate(places):
            while index not in running and (task := next(waiting, None)):
                steps = task(tree)
                if started := _next(steps, None):
                    running[index] = (steps, started)
        if not running:
            return
        time.sleep(0.02)
        for index, (steps, job) in list(running.items()):
            if (code := job.poll()) is not None:
                del running[index]
                if started := _next(steps, code):
                    running[index] = (steps, started)


def _next(steps: Steps, code: int | None) -> Job | None:
    """Start and return the next job of `steps`; return None at the end."""
    try:
        job = steps.send(code)  # type: ignore[arg-type]
    except StopIteration:
        return None
    job.start()
    return job
