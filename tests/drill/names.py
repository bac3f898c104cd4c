"""Faults of run names: two runs in the same second, and a run with the name of the champion's run."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from pathlib import Path

from tests.drill.checks import TRACEBACK, held_locks, partial_files, tail
from tests.drill.faults import Injection, shop_fault
from tests.drill.place import Ended
from tests.drill.shop import BROKEN, CROWNED, NAMING, OVERRIDES, PROMOTED
from tests.drill.shop_bench import ShopBench
from tests.drill.standing import lost, model_hash, settled

REPORT = re.compile(r"report: runs/(\S+)/report\.html")
STARTED = re.compile(r"\d{8}-\d{6}")  # start time in the name of a run
TRIES = 4
PAUSE = 0.05  # seconds after the start of a second at which both runs continue


@shop_fault("two runs in one second", 6)
def same_second(bench: ShopBench, rng: random.Random) -> Injection:
    """Start two runs in the same second; try again if the second has passed before both had their names."""
    bench.begin(CROWNED)
    names, losses = [], []
    while len(names) < TRIES and not (losses or _hit(names)):
        names.append(_two_runs(bench, rng, losses))
    detail = "; ".join(", ".join(pair) for pair in names)
    return Injection(detail, _hit(names), losses=losses, recovery=lambda: _kept(bench))


def _hit(names: list[list[str]]) -> bool:
    """Return whether the last two runs were named in the same second."""
    seconds = [found[0] for name in (names or [[]])[-1] if (found := STARTED.search(name))]
    return len(seconds) == 2 and len(set(seconds)) == 1


def _two_runs(bench: ShopBench, rng: random.Random, losses: list[str]) -> list[str]:
    """Stop two runs before their first server request, continue both as a second begins, and return their names."""
    runs = [bench.stop(NAMING, *override) for override in rng.sample(OVERRIDES, 2)]
    until_next_second()
    for run in runs:
        run.running.send(signal.SIGCONT)
    ended = [run.running.wait() for run in runs]
    names = [found[1] for each in ended if (found := REPORT.search(each.said))]
    losses += [loss for each in ended for loss in _failed(each)] + _runs(bench, names)
    return names


@shop_fault("a run named as the champion's", 5)
def named_as_champion(bench: ShopBench, rng: random.Random) -> Injection:
    return _named(bench, rng.choice([(), rng.choice(OVERRIDES)]), rng)


@shop_fault("a run that fails, named as the champion's", 5)
def failed_as_champion(bench: ShopBench, rng: random.Random) -> Injection:
    return _named(bench, ("--dataset", BROKEN), rng)


def until_next_second() -> None:
    """Wait until a second begins."""
    time.sleep(1 - time.time() % 1 + PAUSE)


def _named(bench: ShopBench, arguments: tuple[str, ...], rng: random.Random) -> Injection:
    """Start a run with the champion's run name: it must be refused in one line with that name, before any change."""
    state = rng.choice([CROWNED, PROMOTED])
    bench.begin(state)
    name = str((bench.repo / "runs/champion").readlink())
    ended = bench.pipeline("--name", name, *arguments).wait()
    lines = [line for line in ended.said.splitlines() if line.startswith("error: ") and name in line]
    losses = [] if len(lines) == 1 or not ended.code else [f"no clear line: {tail(ended)}"]
    detail = f"{state}, {' '.join(arguments) or 'no overrides'}"
    observed = name in ended.said or bool(lost(bench.repo, bench.before))
    return Injection(detail, observed, ended, {64}, losses, recovery=lambda: _kept(bench))


def _failed(ended: Ended) -> list[str]:
    if ended.code or ended.hung or TRACEBACK in ended.said:
        return [f"exit code {ended.code}: {tail(ended)}"]
    return []


def _runs(bench: ShopBench, names: list[str]) -> list[str]:
    """Return a loss unless each run has its own name and a complete folder."""
    if len(set(names)) < 2:
        return [f"two runs with one name: {', '.join(names)}"]
    folders = [bench.repo / "runs" / name for name in names]
    return [f"runs/{folder.name} is not whole" for folder in folders if not _whole(folder)]


def _whole(run: Path) -> bool:
    summary = run / "summary.json"
    named = summary.is_file() and json.loads(summary.read_text())["name"] == run.name
    return named and (run / "report.html").is_file() and bool(model_hash(run / "model"))


def _kept(bench: ShopBench) -> list[str]:
    """Return everything that was lost since the trial began."""
    return lost(bench.repo, bench.before) + settled(bench.repo) + partial_files(bench) + held_locks(bench)
