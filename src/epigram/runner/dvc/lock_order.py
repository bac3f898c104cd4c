"""Order of dvc.lock: as `dvc repro` writes it, in whatever order parallel stages have finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epigram.runner.dvc.graph import Graph


@contextmanager
def sort_on_exit(root: Path, graph: Graph) -> Iterator[None]:
    """On exit, move the new entries of dvc.lock behind the older ones, in the order of `graph`."""
    from epigram.runner.dvc.adapter import locked_stages, sort_locked_stages

    before = locked_stages(root)
    yield
    names = list(locked_stages(root))
    new = [name for name in graph.stages if name in names and name not in before]
    ordered = [name for name in names if name not in new] + new
    if ordered != names:
        sort_locked_stages(root, ordered)
