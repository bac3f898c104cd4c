"""Order of dvc.lock: as `dvc repro` writes it, in whatever order parallel stages have finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epigram.runner.dvc.graph import Graph


@contextmanager
def sort_on_exit(root: Path, graph: Graph) -> Iterator[None]:
    """On exit, move the new entries of dvc.lock behind the older ones, in the order of `graph`."""
    path = root / "dvc.lock"
    before = _names(path)
    yield
    names = _names(path)
    new = [name for name in graph.stages if name in names and name not in before]
    ordered = [name for name in names if name not in new] + new
    if ordered != names:
        _write(root, path, ordered)


def _names(path: Path) -> list[str]:
    from dvc.utils.serialize import load_yaml

    return list(load_yaml(path).get("stages", {})) if path.exists() else []


def _write(root: Path, path: Path, names: list[str]) -> None:
    from dvc.repo import Repo
    from dvc.utils.serialize import modify_yaml

    with Repo(str(root), _wait_for_lock=True) as repo, repo.lock, modify_yaml(str(path)) as data:
        data["stages"] = {name: data["stages"][name] for name in names}
