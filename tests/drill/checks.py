"""Checks after a fault, and after the run that follows it.

A loss is a message about one violation, such as a changed output, an orphan process or an unclear error message.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.drill.bench import Bench, digests, lock_of
from tests.drill.place import Ended, Place

TRACEBACK = "Traceback (most recent call last)"
PARTIAL = re.compile(r"^\..+\.[a-z0-9_]{8}$|\.part$|\.tmp$")
REFUSED = 255  # DVC's exit code for every error
# Messages about the two files for which docs/reliability.md recommends `make repair`: DVC's or this project's.
NEEDS_REPAIR = re.compile(
    r"'(\./)?dvc\.lock' (is invalid|validation failed)|RWLock-file '\.dvc/tmp/rwlock'|make repair"
)
MOST_STEPS = 1  # lost by kill -9; the drill requests a checkpoint after every step (EPIGRAM_CHECKPOINT_SECONDS=0)
STEP = re.compile(r"^\.?step-(\d+)")  # with a leading dot: still being written
RESUMED = re.compile(r"(?:goes on|resuming) from step ([\d,]+) of ([\d,]+)")
EPOCH = re.compile(r"epoch (\d+)/(\d+) ")  # printed at the end of an epoch; the drill's epochs have fewer than 20 steps


def after_fault(place: Place, ended: Ended | None, codes: set[int] | None) -> list[str]:
    """Return the losses right after a command: wrong exit code, traceback, hang, or orphan processes."""
    losses = [f"orphan: {command[:120]}" for command in place.orphans()]
    if ended is None:
        return losses
    if ended.hung:
        losses.append("the command hung")
    elif codes is not None and ended.code not in codes:
        losses.append(f"exit code {ended.code} instead of {sorted(codes)}: {tail(ended)}")
    return losses + [f"a traceback: {tail(ended)}"] * ended.mentions(TRACEBACK)


def after_recovery(bench: Bench, ended: Ended) -> list[str]:
    """Return the losses after the run that follows the fault."""
    losses = [f"the next run: {loss}" for loss in after_fault(bench, ended, {0})]
    if ended.code or ended.hung:
        return losses
    reference = bench.reference
    now, wanted = ({n: _said(e) for n, e in lock.items()} for lock in (lock_of(bench.repo), reference.lock))
    losses += [f"dvc.lock differs: {name}" for name in wanted.keys() | now.keys() if now.get(name) != wanted.get(name)]
    outs = [out for stage in reference.lock for out in reference.outs(stage)]
    losses += _differing("output", reference.outputs, digests(bench.repo, *outs))
    losses += _differing("earlier run", reference.runs, digests(bench.repo, "runs"), more=True)
    return losses + leftovers(bench) + _damaged(bench.cache) + _changed(bench.repo)


def refusal_losses(ended: Ended) -> list[str]:
    """Return a loss unless `dvc repro` named, in one line, a file that `make repair` repairs."""
    named = [line for line in ended.said.splitlines() if NEEDS_REPAIR.search(line)]
    return [] if len(named) == 1 else [f"dvc repro failed, and not for what `make repair` repairs: {tail(ended)}"]


def unclear(ended: Ended, *words: str) -> list[str]:
    """Return a loss unless a line that starts with "error: " has one of the words."""
    lines = [line for line in ended.said.splitlines() if line.startswith("error: ")]
    return [] if any(word in line for line in lines for word in words) else [f"no clear line: {tail(ended)}"]


def tail(ended: Ended) -> str:
    """Return the end of a command's output on one line, or its traceback if it has one."""
    start = ended.said.find(TRACEBACK)
    shown = ended.said[start:][:700] if start >= 0 else ended.said[-700:]
    return " / ".join(shown.strip().splitlines())


def leftovers(place: Place) -> list[str]:
    """Return a loss for every temporary file that nothing will delete, and for every lock that is still held."""
    files = [path for part in ("data", "runs", ".epigram") for path in (place.repo / part).rglob("*")]
    losses = [f"partial file: {path.relative_to(place.repo)}" for path in files if PARTIAL.search(path.name)]
    for path in (place.repo / ".epigram").rglob("*.lock"):
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                losses.append(f"still locked: {path.name}")
    return losses


def _said(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of dvc.lock without file sizes: if Ctrl-C prevented DVC from writing them, it never adds them."""
    files = {key: {each["path"]: each.get("md5") for each in entry.get(key, [])} for key in ("deps", "outs")}
    return {**entry, **files}


def _differing(what: str, wanted: dict[str, str], found: dict[str, str], *, more: bool = False) -> list[str]:
    """Return a loss if digests differ; with `more`, additional files are allowed. `latest` may change."""
    names = wanted if more else wanted.keys() | found.keys()
    bad = sorted(name for name in names if wanted.get(name) != found.get(name) and Path(name).name != "latest")
    return [f"{len(bad)} files of {what} differ: {', '.join(bad[:4])}"] if bad else []


def _damaged(cache: Path) -> list[str]:
    """Return a loss for every file of DVC's cache whose MD5 differs from its name."""
    names = {path: f"{path.parent.name}{path.name}".removesuffix(".dir") for path in cache.rglob("*") if path.is_file()}
    known = {path: name for path, name in names.items() if re.fullmatch("[0-9a-f]{32}", name)}
    bad = [name for path, name in known.items() if hashlib.md5(path.read_bytes()).hexdigest() != name]
    return [f"damaged in DVC's cache: {name}" for name in bad]


def _changed(repo: Path) -> list[str]:
    """Return a loss for every change that git reports, except changes of dvc.lock."""
    done = subprocess.run(["git", "status", "--porcelain"], cwd=repo, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line[3:] != "dvc.lock"]
    return [f"git: {line}" for line in [*lines, *done.stderr.splitlines()]]


@dataclass(frozen=True)
class Reached:
    """Progress of a training when it was killed; times are in seconds since 1970."""

    began: float
    killed: float
    said: str
    checkpoints: dict[int, float] = field(default_factory=dict)  # step → time at which its checkpoint was complete
    writing: int = 0  # the step whose checkpoint was being written
    finished: bool = False  # the weights were written: nothing was left to train


@dataclass(frozen=True)
class Lost:
    """Steps and seconds of training that the next run had to repeat."""

    steps: int
    seconds: float
    losses: tuple[str, ...] = ()


def reached(state: Path, outputs: list[Path], began: float, killed: float, said: str) -> Reached:
    """Read the progress that a killed training left in its `state` folder."""
    checkpoints, writing = {}, 0
    for path in state.rglob("*step-*"):
        note, step = path / "state.json", STEP.match(path.name)
        if step and path.name.startswith("."):
            writing = max(writing, int(step[1]))
        elif step and note.exists():
            checkpoints[int(step[1])] = note.stat().st_mtime
    finished = any(state.rglob("seed-*.json")) or all(path.exists() for path in outputs)
    return Reached(began, killed, said, checkpoints, writing, finished)


def measure(killed: Reached, said_next: str) -> Lost:
    """Compare the steps done before the kill with the step from which the next run resumes."""
    if killed.finished:
        return Lost(0, 0.0)
    found, epochs = RESUMED.search(said_next), EPOCH.findall(killed.said)
    resumed, total = (int(each.replace(",", "")) for each in found.groups()) if found else (0, 0)
    printed = int(epochs[-1][0]) * total // int(epochs[-1][1]) if epochs else 0
    done = max(printed, killed.writing, *killed.checkpoints, 0)
    losses, kept = [], sorted(killed.checkpoints)[-2:]
    if not found and (done or epochs):
        losses.append(f"no checkpoint was used: the next run began anew after step {done}")
    elif not 0 <= done - resumed <= MOST_STEPS:
        losses.append(f"{done - resumed} steps lost: {done} were done, the next run resumes from step {resumed}")
    if len(kept) == 2 and kept[1] - kept[0] > MOST_STEPS:
        losses.append(f"checkpoints of steps {kept[0]} and {kept[1]} are more than {MOST_STEPS} step apart")
    return Lost(done - resumed, max(0.0, killed.killed - killed.checkpoints.get(resumed, killed.began)), tuple(losses))
