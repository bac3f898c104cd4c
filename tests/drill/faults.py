"""Table of faults of a run of the pipeline: where each strikes, what it does, and what is expected of the command.

Every fault returns an Injection. `observed` is true only if there is evidence that the fault hit: an exit code, a
message, a changed file or a request.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from typing import Any, NamedTuple

import psutil
import yaml

from tests.drill.bench import LEARNING, NEURAL, STAGE, Bench
from tests.drill.checks import TRACEBACK, Reached, reached, tail, unclear
from tests.drill.place import Ended, Running, kill
from tests.drill.sources import MANNERS, served
from tests.support.processes import command_line

CLOCK = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
PLACES = (".", "data", "data/models", "data/encoded", ".dvc", ".dvc/cache", ".dvc/tmp", ".epigram", "runs")
DISK_FULL = ("No space left", "disk is full", "os error 28")
READ_ONLY = ("Read-only file system", "readonly database", "os error 30")
KILLED = ("killed by SIGKILL", "killed, most often because", "killed, probably because", "with -9", "with 137")
INTERRUPTED = ("error: interrupted", "stopped by SIGTERM", "interrupted by the user")
BUSY = ("is busy", "Unable to acquire lock", "another run", "another process")
NEVER = 1  # ns since 1970: an access time that no read sets
FIRST_EPOCH = 60.0  # seconds within which a training ends its first epoch
ENDS = {130, 143, -2, -15, 252}  # handled by the process or killed by the signal; DVC exits with 252 after Ctrl-C
EITHER = ("dvc", "flow")


@dataclass(frozen=True)
class Injection:
    """One injected fault.

    `ended` is the command for which the fault was meant, `codes` are its allowed exit codes (None: any), and `losses`
    are those that the fault itself found. `by` is the next run: dvc, flow, or repair (`make repair`, then dvc).
    `reached` is the progress of a training before kill -9.
    """

    detail: str
    observed: bool
    ended: Ended | None = None
    codes: set[int] | None = None
    losses: list[str] = field(default_factory=list)
    by: str = "dvc"
    reached: Reached | None = None


@dataclass(frozen=True)
class Fault:
    """A kind of fault. One with a higher `weight` is drawn more often; one with `mounts` needs its own file systems.

    `missing` names a required package that is not installed.
    """

    name: str
    inject: Callable[[Any, random.Random], Injection]
    weight: int
    mounts: bool = False
    missing: str = ""


class Signals(NamedTuple):
    """Signals that are sent to a process of a command (`on`) at a random moment, and what is expected.

    `to` is the target, if it is not the command itself. Each entry of `send` has the signals to choose from. `words`
    are printed by a command that was hit; a code of `sure` is evidence too.
    """

    name: str
    weight: int
    on: str  # stage, learning (a stage that trains), dvc, flow, server (a flow with its own server)
    codes: set[int]
    to: str = ""  # stage, dvc or server
    send: tuple[tuple[signal.Signals, ...], ...] = ((SIGKILL,),)
    group: bool = False
    words: tuple[str, ...] = ()
    sure: set[int] | None = None
    by: tuple[str, ...] = ("dvc",)
    again: bool = False  # run dvc again at once


SIGNALS = (
    Signals("kill -9 of a stage alone", 14, "stage", {0, -9}),
    Signals("kill -9 of a stage under dvc", 12, "dvc", {0, 255}, to="stage", words=KILLED),
    Signals("kill -9 of a stage under the flow", 4, "flow", {0}, to="stage", words=("Retrying",), by=("flow",)),
    Signals("kill -9 of dvc", 12, "dvc", {0, -9}),
    Signals("kill -9 of dvc, run again at once", 6, "dvc", {0, -9}, again=True),
    Signals("kill -9 of dvc under the flow", 3, "flow", {0}, to="dvc", words=("Retrying",), by=("flow",)),
    Signals("kill -9 of the flow", 8, "flow", {0, -9}, by=EITHER),
    Signals("kill -9 of the Prefect server", 4, "server", {0, 69, 75}, to="server", sure={0, 69, 75}),
    Signals("SIGTERM to a stage", 12, "stage", {0, -15, 75, 143}, send=((SIGTERM,),)),
    Signals("SIGTERM in training", 12, "learning", {0, 75, -15}, send=((SIGTERM,),)),
    Signals("Ctrl-C in training", 8, "learning", {0, 130, -2}, send=((SIGINT,),)),
    Signals("kill -9 in training", 12, "learning", {0, -9}),
    Signals("two signals to a stage", 4, "learning", {0, 75, 130, -2, -15}, send=((SIGINT, SIGTERM),) * 2),
    Signals(
        "Ctrl-C in a terminal under dvc", 8, "dvc", {0, 75, 255} | ENDS,
        send=((SIGINT,),), group=True, words=INTERRUPTED, sure=ENDS,
    ),
    Signals("SIGTERM to dvc", 6, "dvc", {0, 75, 255} | ENDS, send=((SIGTERM,),), words=INTERRUPTED, sure=ENDS),
    Signals("SIGTERM to the flow", 3, "flow", {0, 75, 143, -15}, send=((SIGTERM,),), by=EITHER),
    Signals("Ctrl-C to the flow", 3, "flow", {0, 130, -2}, send=((SIGINT,),), by=EITHER),
    Signals("Ctrl-C in a terminal under the flow", 2, "flow", {0, 130, -2}, send=((SIGINT,),), group=True, by=EITHER),
)  # fmt: skip


def started(on: str, bench: Bench, rng: random.Random) -> tuple[Running, str, float]:
    """Start a command on undone stages; return it, a stage, and the seconds within which a fault is to strike."""
    seconds = bench.reference.seconds
    if on in {"stage", "learning"}:
        name = rng.choice(LEARNING if on == "learning" else [bench.any_stage(rng)])
        bench.forget([name])
        running = bench.stage(name)
        if on == "learning":
            running.until(lambda: "epoch" in running.said, FIRST_EPOCH)
        return running, name, seconds[name] / 4 if on == "learning" else 0.7 * seconds[name]
    name = bench.undo(rng)
    running = bench.dvc() if on == "dvc" else bench.flow(own_server=on == "server")
    return running, name, bench.span + {"dvc": 0.0, "flow": 4.0, "server": 12.0}[on]


def signalled(row: Signals, bench: Bench, rng: random.Random) -> Injection:
    """Send the signals of a row."""
    began = time.time()
    running, name, span = started(row.on, bench, rng)
    at, numbers = rng.uniform(0.0, span), [rng.choice(each) for each in row.send]
    if row.to:
        hit = kill(
            _target(row.to, bench, running, at if row.to == "server" else at * bench.reference.seconds[name] / span)
        )
        hit &= running.alive if row.to == "server" else True
    else:
        running.after(at)
        hit = True
        for place, number in enumerate(numbers):
            running.after(rng.uniform(0.0, 0.05) if place else 0.0)
            hit &= running.send(number, group=row.group)
    killed, ended = time.time(), running.wait()
    sure = row.sure if row.sure is not None else set() if row.words else row.codes - {0}
    observed = hit and (ended.mentions(*row.words) or ended.code in sure)
    losses, progress = [], None
    if row.on == "learning":
        observed &= "epoch" in ended.said
        saved = any((bench.repo / ".epigram/state").rglob("state.json")) or ended.code not in {75, 130}
        losses = [] if saved or len(numbers) > 1 else ["no checkpoint was written"]
        if numbers == [SIGKILL]:
            bench.wait_until_idle()
            outs = [bench.repo / out for out in bench.reference.outs(name)]
            progress = reached(bench.repo / ".epigram/state", outs, began, killed, ended.said)
    codes = {255} if observed and row.words == KILLED else row.codes
    if row.again:
        ended, codes = bench.dvc().wait(), {0}
    detail = f"{name}, {' and '.join(number.name for number in numbers)} after {at:.1f} s"
    return Injection(detail, observed, ended, codes, losses, rng.choice(row.by), progress)


def _target(to: str, bench: Bench, running: Running, seconds: float) -> int | None:
    """Return the process to kill, `seconds` after it started; None if it has ended."""
    pid = bench.find("epigram.runner.service.server_app" if to == "server" else STAGE, running)
    running.after(seconds)
    if to == "server":
        return pid
    now = bench.find(STAGE, running, 1.0)
    if to == "stage" or not now:
        return now and pid
    for each in psutil.Process(now).parents() if psutil.pid_exists(now) else []:  # other processes of DVC may wait
        if "runner/dvc/repro.py" in command_line(each):
            return each.pid
    return None


class Starved(NamedTuple):
    """A disk that is full up to a random number of bytes, or a read-only folder, under a command."""

    name: str
    weight: int
    on: str
    words: tuple[str, ...]
    codes: set[int] | None
    by: tuple[str, ...] = ("dvc",)


STARVED = (
    Starved("disk full under a stage", 14, "stage", DISK_FULL, {0, 74}),
    Starved("disk full under dvc", 12, "dvc", DISK_FULL, None),
    Starved("disk full under the flow", 4, "flow", DISK_FULL, {0, 66, 74}, EITHER),  # 66: git does not say why
    Starved("a read-only folder under a stage", 8, "stage", READ_ONLY, {74}),
    Starved("a read-only folder under dvc", 6, "dvc", READ_ONLY, None),
    Starved("a read-only folder under the flow", 2, "flow", READ_ONLY, {0, 74}),
)


def starved(row: Starved, bench: Bench, rng: random.Random) -> Injection:
    """Run a command on a full disk or with a read-only folder; a stage alone must name the fault in one line."""
    name = bench.any_stage(rng) if row.on == "stage" else bench.undo(rng)
    if row.on == "stage":
        bench.forget([name])
    room, folder = int(4096 * 2 ** rng.uniform(0, 11)), bench.repo / rng.choice(PLACES)
    if row.on == "stage":
        folder = (bench.repo / bench.reference.outs(name)[0]).parent
    with bench.full(room) if row.words == DISK_FULL else bench.read_only(folder):
        ended = {"stage": partial(bench.stage, name), "dvc": bench.dvc, "flow": bench.flow}[row.on]().wait()
    losses = unclear(ended, *row.words) if row.on == "stage" and ended.code else []
    where = f"{room // 1024} KB left" if row.words == DISK_FULL else str(folder.relative_to(bench.repo))
    return Injection(f"{name}, {where}", ended.mentions(*row.words), ended, row.codes, losses, rng.choice(row.by))


class Race(NamedTuple):
    """Two commands at once: the second starts up to `later` seconds after the first."""

    name: str
    weight: int
    first: str
    second: str
    later: float
    codes: set[int]
    by: str = "dvc"


RACES = (
    Race("dvc twice at once", 10, "dvc", "dvc", 3.0, {0, 255}),
    Race("the flow twice at once", 5, "flow", "flow", 4.0, {0, 75}, "flow"),
    Race("dvc beside the flow", 5, "flow", "dvc", 6.0, {0, 75, 255}, "flow"),
    Race("a stage twice at once", 6, "stage", "stage", 0.0, {0, 75}),
    Race("two runs with overrides at once", 3, "override", "override", 0.0, {0}),
)


def raced(row: Race, bench: Bench, rng: random.Random) -> Injection:
    """Run both commands; both succeed, or one succeeds and the other one reports that the first is running."""
    name, later = bench.any_stage(rng), row.later
    if row.first == "stage":
        bench.forget([name])
        later = bench.reference.seconds[name]
    elif row.first != "override":  # two runs with overrides have workspaces of their own
        name = bench.undo(rng)
    first = _of_race(row.first, bench, name, 1)
    first.after(rng.uniform(0.0, later))
    second = _of_race(row.second, bench, name, 2)
    both = second.until(lambda: second.said) and first.alive
    runs = [first.wait(), second.wait()]
    observed = both or any(each.mentions(*BUSY) for each in runs if each.code)
    losses = [f"exit code {each.code}: {tail(each)}" for each in runs if each.code not in row.codes or each.hung]
    losses += [f"a traceback: {tail(each)}" for each in runs if each.mentions(TRACEBACK)]
    losses += [f"no clear line: {tail(each)}" for each in runs if each.code in {75, 255} and not each.mentions(*BUSY)]
    if all(each.code for each in runs):
        losses.append(f"neither ended well: {tail(runs[0])} // {tail(runs[1])}")
    return Injection(f"{name} and on", observed, losses=losses, by=row.by)


def _of_race(kind: str, bench: Bench, name: str, number: int) -> Running:
    if kind == "override":
        change = f"evaluate.resamples={100 + number}"
        return bench.flow("--set", change, "--systems", NEURAL, "--name", f"w{number}")
    return bench.stage(name) if kind == "stage" else getattr(bench, kind)()


def spoil(path: Path, rng: random.Random) -> tuple[str, bool]:
    """Truncate a file or flip one of its bits; return what was done, and whether the file on disk differs now.

    The access time is set to `NEVER`; a read changes it.
    """
    before, mode = path.read_bytes(), path.stat().st_mode
    content = bytearray(before)
    if not content or rng.random() < 0.4:
        content, what = content[: rng.randrange(max(1, len(content)))], "truncated"
    else:
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        what = f"bit flipped at {place}"
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)
    os.utime(path, ns=(NEVER, path.stat().st_mtime_ns))
    return what, bytes(content) != before


def newest(state: Path) -> list[Path]:
    """Return the files of `state` that the next run reads: no locks, and only each training's newest checkpoint."""
    files = [path for path in state.rglob("*") if path.is_file() and path.stat().st_size and path.suffix != ".lock"]
    steps = {path.parent for path in files if path.parent.name.lstrip(".").startswith("step-")}
    whole = [step for step in steps if not step.name.startswith(".")]
    read = {max(step for step in whole if step.parent == each.parent) for each in whole}
    return sorted(path for path in files if path.parent not in steps - read)


def _output(bench: Bench, rng: random.Random, *stages: str) -> Path:
    """Return a random output file of the stages; models, tables and arrays are preferred."""
    outs = [bench.repo / out for stage in stages for out in bench.reference.outs(stage)]
    files = sorted(path for out in outs for path in out.rglob("*") if path.is_file() and path.stat().st_size)
    binary = [path for path in files if path.suffix in {".safetensors", ".parquet", ".npy"}]
    return rng.choice(binary if binary and rng.random() < 0.7 else files)


def output_damaged(bench: Bench, rng: random.Random) -> Injection:
    path = _output(bench, rng, bench.any_stage(rng))
    what, changed = spoil(path, rng)
    return Injection(f"{path.relative_to(bench.repo)} {what}", changed)


def input_damaged(bench: Bench, rng: random.Random) -> Injection:
    """Damage an input of a stage: the stage must report it in one clear line, or succeed, and DVC runs it again."""
    needs = bench.reference.needs
    name = rng.choice(sorted(stage for stage in needs if needs[stage]))
    path = _output(bench, rng, *sorted(needs[name]))
    what, changed = spoil(path, rng)
    ended = bench.stage(name).wait()
    read = not path.exists() or path.stat().st_atime_ns != NEVER
    return Injection(f"{name}: {path.relative_to(bench.repo)} {what}", changed and read, ended, {0, 65, 66})


def cache_damaged(bench: Bench, rng: random.Random) -> Injection:
    """Damage a cache file and delete its output, which DVC restores; the flow or `make repair` checks the cache."""
    name = bench.any_stage(rng)
    path = rng.choice(sorted(bench.cached(name)))
    what, changed = spoil(path, rng)
    bench.remove(name)
    return Injection(f"{name}: {path.relative_to(bench.cache)} {what}", changed, by=rng.choice(["repair", "flow"]))


def state_damaged(bench: Bench, rng: random.Random) -> Injection:
    """Kill a training and damage a file of its state."""
    running, name, span = started("learning", bench, rng)
    running.after(rng.uniform(0.0, span))
    running.send(SIGKILL)
    bench.wait_until_idle()
    files = newest(bench.repo / ".epigram/state")
    if not files:
        return Injection("no state yet", False)
    path = rng.choice(files)
    what, changed = spoil(path, rng)
    return Injection(f"{name}: {path.name} {what}", changed)


def file_lost(bench: Bench, rng: random.Random) -> Injection:
    """Delete dvc.lock, an output file or a cache file."""
    name = bench.any_stage(rng)
    cached = rng.choice(sorted(bench.cached(name)))
    path = rng.choice([bench.repo / "dvc.lock", _output(bench, rng, name), cached])
    path.unlink()
    return Injection(str(path.relative_to(bench.repo)), not path.exists())


def times_changed(bench: Bench, rng: random.Random) -> Injection:
    """Shift the modification times of about 70 % of the files by up to ten years, as a wrong clock does."""
    offset, changed = rng.uniform(-3e8, 3e8), False
    for path in bench.repo.rglob("*"):
        if ".git" not in path.parts and path.is_file() and not path.is_symlink() and rng.random() < 0.7:
            before = path.stat().st_mtime
            os.utime(path, (before + offset, before + offset))
            changed |= path.stat().st_mtime != before
    name = bench.any_stage(rng)
    bench.forget(bench.reference.after(name))
    return Injection(f"by {offset / 86400:.0f} days, {name} and on", changed, bench.dvc().wait(), {0})


def not_finite(bench: Bench, rng: random.Random) -> Injection:
    """Train with a learning rate that makes the loss NaN or infinite, then restore the right one."""
    name, path = f"train@{NEURAL}", bench.repo / "params.yaml"
    bench.forget([name])
    before = path.read_text()
    params = yaml.safe_load(before)
    params["systems"][NEURAL]["train"] = {"learning_rate": rng.choice([1e20, 1e30]), "clip": None, "warmup": 0.0}
    path.write_text(yaml.safe_dump(params))
    ended = bench.stage(name).wait()
    path.write_text(before)
    named = re.search(r"error: .*step \d+.* rows \d+", ended.said)
    losses = [] if named else [f"step and rows are not named: {tail(ended)}"]
    return Injection(name, named is not None, ended, {64}, losses)


def clock_back(bench: Bench, rng: random.Random) -> Injection:
    """Run DVC with a clock that is set back by days, so that it runs before the reference run."""
    name, days = bench.undo(rng), rng.randint(1, 4000)
    env = {"LD_PRELOAD": str(CLOCK), "FAKETIME": f"-{days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    shown = bench.start(sys.executable, "-c", "import time; print(time.time())", **env).wait().said
    behind = re.fullmatch(r"[\d.]+\s*", shown) and abs(time.time() - float(shown) - days * 86400) < 3600
    return Injection(f"{days} days, {name} and on", bool(behind), bench.dvc(**env).wait(), {0})


def misbehaving(bench: Bench, rng: random.Random) -> Injection:
    """Download from a source that hangs, resets, or sends an error, a wrong length or other bytes."""
    manner, bad = rng.choice(sorted(MANNERS)), rng.randint(1, 4)
    bench.forget(["download"])
    with served(bench, manner, bad, rng.random()) as source:
        ended = bench.stage("download").wait()
    losses = unclear(ended, "") if ended.code else []
    return Injection(f"{manner}, {bad} times", source.misbehaved > 0, ended, {0} | MANNERS[manner], losses)


def download_killed(bench: Bench, rng: random.Random) -> Injection:
    """Kill a download: the received part is kept, and the next run continues from it."""
    bench.forget(["download"])
    with served(bench, "slow", 9, rng.uniform(0.0, 0.9)) as source:
        running = bench.stage("download")
        asked = running.until(lambda: source.misbehaved > 0)
        running.after(rng.uniform(0.0, 1.0))
        observed = running.send(SIGKILL) and asked and running.wait().code == -9
        again = bench.stage("download").wait()
    return Injection("a slow source", observed, again, {0})


FAULTS = [
    *(Fault(row.name, partial(signalled, row), row.weight) for row in SIGNALS),
    *(Fault(row.name, partial(starved, row), row.weight, mounts=True) for row in STARVED),
    *(Fault(row.name, partial(raced, row), row.weight) for row in RACES),
    Fault("a damaged output", output_damaged, 12),
    Fault("a damaged input of a stage", input_damaged, 16),
    Fault("a damaged file of DVC's cache", cache_damaged, 12),
    Fault("a damaged state of training", state_damaged, 12),
    Fault("a file of DVC's that is lost", file_lost, 6),
    Fault("times of files that jump", times_changed, 6),
    Fault("a loss that is NaN or infinite", not_finite, 6),
    Fault("a clock that goes back", clock_back, 6, missing="" if CLOCK else "libfaketime"),
    Fault("a source that misbehaves", misbehaving, 22),
    Fault("kill -9 in a download", download_killed, 4),
]
