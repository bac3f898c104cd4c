"""Checks after a fault, and after the run that follows it.

A loss is a message about one violation, such as a changed output, an orphan process or an unclear error message.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.drill.bench import Bench
from tests.drill.place import Ended, Place
from tests.drill.reference import digests, lock_of

TRACEBACK = "Traceback (most recent call last)"
PARTIAL = re.compile(r"^\..+\.[a-z0-9_]{8}$|\.part$|\.tmp$")
TAIL = 700  # maximum characters of a command's output in a loss


def after_fault(place: Place, ended: Ended | None, codes: set[int] | None) -> list[str]:
    """Return the losses right after the fault: wrong exit code, traceback, hang, or orphan processes."""
    losses = []
    if ended is not None:
        if ended.hung:
            losses.append("the command hung")
        elif codes is not None and ended.code not in codes:
            losses.append(f"exit code {ended.code} instead of {sorted(codes)}: {tail(ended)}")
        if TRACEBACK in ended.said:
            losses.append(f"a traceback: {tail(ended)}")
    return losses + [f"orphan: {process.command[:120]}" for process in place.orphans()]


def after_recovery(bench: Bench, ended: Ended) -> list[str]:
    """Return the losses after the run that follows the fault."""
    if ended.code or ended.hung:
        return [f"the next run ended with {ended.code}: {tail(ended)}", *_orphans(bench)]
    reference = bench.reference
    losses = [f"a traceback in the next run: {tail(ended)}"] if TRACEBACK in ended.said else []
    losses += _orphans(bench)
    lock, wanted = (
        {name: _said(entry) for name, entry in each.items()} for each in (lock_of(bench.repo), reference.lock)
    )
    losses += [
        f"dvc.lock differs: {name}" for name in wanted.keys() | lock.keys() if lock.get(name) != wanted.get(name)
    ]
    found = digests(bench.repo, *_outs(bench))
    losses += _differing("output", reference.outputs, found)
    losses += _differing("earlier run", reference.runs, digests(bench.repo, "runs"), more=True)
    return losses + partial_files(bench) + _cache(bench) + held_locks(bench) + _tree(bench)


def tail(ended: Ended) -> str:
    """Return the end of a command's output on one line, or its traceback if it has one."""
    start = ended.said.find(TRACEBACK)
    shown = ended.said[start:][:TAIL] if start >= 0 else ended.said[-TAIL:]
    return " / ".join(shown.strip().splitlines())


def _said(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of dvc.lock without file sizes: if Ctrl-C prevented DVC from writing them, it never adds them."""
    files = {key: {each["path"]: each.get("md5") for each in entry.get(key, [])} for key in ("deps", "outs")}
    return {**entry, **files}


def _orphans(bench: Place) -> list[str]:
    return [f"orphan of the next run: {process.command[:120]}" for process in bench.orphans()]


def _outs(bench: Bench) -> list[str]:
    return [out for stage in bench.reference.lock for out in bench.reference.outs(stage)]


def _differing(what: str, wanted: dict[str, str], found: dict[str, str], *, more: bool = False) -> list[str]:
    """Return a loss if digests differ; with `more`, additional files are allowed. `latest` may change."""
    names = wanted if more else wanted.keys() | found.keys()
    bad = sorted(name for name in names if wanted.get(name) != found.get(name) and Path(name).name != "latest")
    return [f"{what} differs: {', '.join(bad[:4])}{f' and {len(bad) - 4} more' if len(bad) > 4 else ''}"] if bad else []


def partial_files(place: Place) -> list[str]:
    """Return a loss for every temporary file that nothing will delete."""
    folders = [place.repo / part for part in ("data", "runs", ".epigram")]
    left = [str(path.relative_to(place.repo)) for folder in folders for path in folder.rglob("*")]
    return [f"partial file: {name}" for name in left if PARTIAL.search(Path(name).name)]


def _cache(bench: Bench) -> list[str]:
    """Return a loss for every file of DVC's cache whose MD5 differs from its name."""
    losses = []
    for path in bench.cache.rglob("*"):
        name = f"{path.parent.name}{path.name}".removesuffix(".dir")
        known = path.is_file() and re.fullmatch("[0-9a-f]{32}", name)
        if known and hashlib.md5(path.read_bytes()).hexdigest() != name:
            losses.append(f"damaged in DVC's cache: {name}")
    return losses


def held_locks(place: Place) -> list[str]:
    losses = []
    for path in (place.repo / ".epigram").rglob("*.lock"):
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                losses.append(f"still locked: {path.name}")
    return losses


def _tree(bench: Bench) -> list[str]:
    """Return a loss for every change that git reports, except changes of dvc.lock."""
    done = subprocess.run(["git", "status", "--porcelain"], cwd=bench.repo, capture_output=True, text=True, check=False)
    changed = [line for line in done.stdout.splitlines() if line[3:] != "dvc.lock"]
    return [f"git: {line}" for line in [*changed, *done.stderr.splitlines()]]
