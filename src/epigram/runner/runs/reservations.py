"""Reservation of run names: no two runs work under one name, and no run replaces one that something points to."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.runner.champions import champion
from epigram.runner.workspace.run_folders import check_run_name
from epigram.runner.workspace.settings import load

MAX_DATASET_LENGTH = 70  # maximum length of the data set's part in a generated name
MAX_ATTEMPTS = 1_000
_locks: dict[Path, IO[str]] = {}  # lock files of the names that this process has reserved


def reserve(main: Path, name: str | None, dataset: str) -> str:
    """Reserve `name`, or a name made of the data set and the time, until `release` or the end of this process.

    Returns the name. Raises ParameterError if the name is invalid or something points to the run of that name,
    TryAgainError if another run has reserved it.
    """
    if name is None:
        base = f"{dataset[:MAX_DATASET_LENGTH]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        candidates = (base, *(f"{base}-{number}" for number in range(2, MAX_ATTEMPTS)))
        return next(name for name in candidates if _try_reserve(main, name))
    check_run_name(name)
    if not _lock(_lock_path(main, name)):
        raise TryAgainError(f"--name {name!r} is in use by another run; wait for it to finish or choose another name")
    try:
        check_not_referenced(main, [name])
    except EpigramError:
        release(main, name)
        raise
    return name


def release(main: Path, name: str) -> None:
    """Release the name; do nothing if this process has not reserved it."""
    if lock := _locks.pop(_lock_path(main, name), None):
        _lock_path(main, name).unlink(missing_ok=True)
        lock.close()


@contextmanager
def release_on_exit(main: Path, name: str) -> Iterator[None]:
    """Release the name at the end of the context."""
    try:
        yield
    finally:
        release(main, name)


def check_not_referenced(main: Path, names: Sequence[str]) -> None:
    """Raise ParameterError for the name of a run to which a link in runs/, a champion in git or a teacher points."""
    references = _references(main) if names else {}
    for name in names:
        if name in references:
            raise ParameterError(
                f"--name {name!r}: {references[name]} refers to the run of that name; choose another name"
            )


def _references(main: Path) -> dict[str, str]:
    """Return the link, the champion or the teacher that points to each run, by the run's name."""
    runs = (main / "runs").resolve()
    links = [each for each in runs.glob("*") if each.is_symlink()] if runs.is_dir() else []
    found: dict[str, str] = {}
    with suppress(EpigramError):  # the user's own branch, or a broken one: no rollback can restore its runs
        found = {each.run: f"champion {each.number}" for each in champion.history(main)}
    targets = _teachers(main) | {f"runs/{link.name}": link for link in links}
    for reference, path in targets.items():
        target = path.resolve()
        if target != runs and target.is_relative_to(runs):
            found[target.relative_to(runs).parts[0]] = reference
    return found


def _teachers(main: Path) -> dict[str, Path]:
    """Return the folders of the teachers in params.yaml, by the setting; empty if it cannot be read."""
    with suppress(EpigramError):
        systems = load(main / "params.yaml").systems
        return {f"systems.{name}.teacher": main / each.teacher for name, each in systems.items() if each.teacher}
    return {}


def _try_reserve(main: Path, name: str) -> bool:
    """Reserve a name unless a run has it, or a run of a sweep has it as its prefix; return whether it is reserved."""
    if not _lock(_lock_path(main, name)):
        return False
    runs = main / "runs"
    if os.path.lexists(runs / name) or any(runs.glob(f"{glob.escape(name)}-*")):
        release(main, name)
        return False
    return True


def _lock_path(main: Path, name: str) -> Path:
    return main.resolve() / ".epigram" / "names" / f"{name}.lock"


def _lock(path: Path) -> bool:
    """Lock a file that its owner deletes at the end; return False if another run holds the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("a", encoding="utf-8")
        try:
            if not lock_descriptor(file.fileno(), blocking=False):
                file.close()
                return False
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                _locks[path] = file
                return True
        except FileNotFoundError:
            pass  # its owner removed it meanwhile
        file.close()
