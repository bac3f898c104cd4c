"""Private parts of DVC: its repository, graph, lock files and run cache.

A reader of the run cache takes the unfinished file of another process for a damaged entry and deletes it, or finds that
a listed file is gone. Both end a stage with FileNotFoundError. The second attempt succeeds.

DVC documents its command line and `dvc.api`. Neither returns the graph or the restored stages, waits for the lock while
the caller works, or writes dvc.lock. tests/contract/test_adapters_dvc.py checks that the installed version has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from dvc.repo import Repo
from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from dvc.stage.cache import _get_cache_hash
from dvc.utils.serialize import EncodingError, ParseError, load_yaml, modify_yaml
from voluptuous import Invalid

MAX_ATTEMPTS = 10


def retry_on_conflict(repo: Repo) -> None:
    """Let the repository repeat the reading and the writing of an entry if a file of the run cache disappears."""
    cache: Any = repo.stage_cache
    for name in ("save", "restore"):
        setattr(cache, name, _retrying(getattr(cache, name), cache.cache_dir))


def ignore_damaged_entries(repo: Repo) -> None:
    """Let the repository take an entry of its run cache for missing if the entry's hash differs from its name."""
    cache: Any = repo.stage_cache
    load = cache._load_cache

    def load_intact(key: str, value: str) -> Any:
        with suppress(EncodingError):  # DVC itself deletes damaged entries that are UTF-8, but no valid YAML
            entry = load(key, value)
            if entry is not None and _get_cache_hash(entry) == value:
                return entry
        return None

    cache._load_cache = load_intact


def _retrying(method: Callable[..., None], folder: str) -> Callable[..., None]:
    @wraps(method)
    def call(*arguments: Any, **options: Any) -> None:
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return method(*arguments, **options)
            except FileNotFoundError as error:
                if not str(error.filename).startswith(folder):
                    raise
        return method(*arguments, **options)

    return call


def open_repo(root: Path) -> Repo:
    """Open the repository; it waits for DVC's lock, like the command line with --wait-for-lock."""
    return Repo(str(root), _wait_for_lock=True)


def cache_folder(root: Path) -> Path:
    """Return the folder that contains the cache's files."""
    with Repo(str(root)) as repo:
        return Path(repo.cache.local.path)


def shared_cache_folder(root: Path) -> Path:
    """Return the folder of the cache, which another workspace can share."""
    with Repo(str(root)) as repo:
        return Path(repo.cache.local_cache_dir).absolute()


def stages_with_needs(repo: Repo) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each stage with the stages that it depends on, in the order of `dvc repro`.

    The public `dvc dag` prints no order, and names relative to the current folder. A frozen stage depends on no other.
    """
    graph, seen = repo.index.graph, set()

    def visit(stage: Any) -> Iterator[tuple[Any, list[Any]]]:
        if stage in seen:
            return
        seen.add(stage)
        needs = [] if stage.frozen else list(graph.successors(stage))  # an edge points from a stage to a dependency
        for need in needs:
            yield from visit(need)
        yield stage, needs

    for stage in graph:
        yield from visit(stage)


def record_restored(repo: Repo) -> list[str]:
    """Return a list that will contain the stages that the repository restores from DVC's run cache.

    `Repo.reproduce` returns them among the executed ones.
    """
    restored: list[str] = []
    restore = repo.stage_cache.restore

    def restore_and_record(stage: Any, **options: Any) -> None:
        restore(stage, **options)  # raises if the run cache lacks the stage
        restored.append(stage.addressing)

    repo.stage_cache.restore = restore_and_record
    return restored


def track(root: Path, path: Path) -> None:
    """Put a file into DVC's cache, and record its hash in the file `path`.dvc, like `dvc add`."""
    with open_repo(root) as repo:
        repo.add([str(path)])


def locked_stages(root: Path) -> dict[str, Any]:
    """Return the stages of dvc.lock in file order; empty if there is no dvc.lock."""
    path = root / "dvc.lock"
    return dict(load_yaml(str(path)).get("stages", {})) if path.exists() else {}


@contextmanager
def sort_lock_file_on_exit(root: Path, names: Iterable[str]) -> Iterator[None]:
    """On exit, move the new entries of dvc.lock behind the older ones, in the order of `names`, as `dvc repro` does.

    Parallel stages finish in any order. Only DVC's own dumper writes the file as DVC does.
    """
    before = locked_stages(root)
    yield
    written = list(locked_stages(root))
    new = [name for name in names if name in written and name not in before]
    ordered = [name for name in written if name not in new] + new
    if ordered != written:
        with open_repo(root) as repo, repo.lock, modify_yaml(str(root / "dvc.lock")) as data:
            data["stages"] = {name: data["stages"][name] for name in ordered}


def is_valid_lock_file(path: Path) -> bool:
    """Return whether DVC can read dvc.lock. DVC reads it with dvc.yaml, whose errors must not count."""
    try:
        COMPILED_LOCKFILE_SCHEMA(load_yaml(str(path)))
    except (ParseError, Invalid):
        return False
    return True
