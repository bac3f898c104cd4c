"""Concurrency faults: two runs at once."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.drill.bench import Bench
from tests.drill.checks import TRACEBACK, tail
from tests.drill.evidence import BUSY, mentions, overlapped
from tests.drill.faults import Injection, any_stage, fault, undone
from tests.drill.place import Ended, Running, moment
from tests.drill.reference import NEURAL


@fault("dvc twice at once", 10)
def dvc_twice(bench: Bench, rng: random.Random) -> Injection:
    return _both(bench, rng, (bench.dvc, bench.dvc), 3.0, {0, 255})


@fault("the flow twice at once", 5)
def flow_twice(bench: Bench, rng: random.Random) -> Injection:
    return _both(bench, rng, (bench.flow, bench.flow), 4.0, {0, 75}, by="flow")


@fault("dvc beside the flow", 5)
def dvc_beside_flow(bench: Bench, rng: random.Random) -> Injection:
    return _both(bench, rng, (bench.flow, bench.dvc), 6.0, {0, 75, 255}, by="flow")


def _both(
    bench: Bench,
    rng: random.Random,
    starts: tuple[Callable[[], Running], Callable[[], Running]],
    later: float,
    codes: set[int],
    **again: str,
) -> Injection:
    """Start the second run up to `later` seconds after the first; `again` selects the run that follows."""
    name = undone(bench, rng)
    first = starts[0]()
    first.after(moment(rng, later))
    observed, ended = _together(first, starts[1]())
    return Injection(f"{name} and on", observed, losses=_judged(ended, codes), **again)


@fault("two runs with overrides at once", 3)
def workspaces(bench: Bench, rng: random.Random) -> Injection:
    """Start two runs with overrides: each works in its own workspace, and they share the cache."""
    first, second = (
        bench.flow("--set", f"evaluate.resamples={100 + n}", "--systems", NEURAL, "--name", f"w{n}") for n in (1, 2)
    )
    observed, ended = _together(first, second)
    return Injection("evaluate and on", observed, losses=_judged(ended, {0}))


@fault("a stage twice at once", 6)
def stage_twice(bench: Bench, rng: random.Random) -> Injection:
    name = any_stage(bench, rng)
    bench.forget({name})
    first = bench.stage(name)
    first.after(moment(rng, bench.reference.seconds[name]))
    observed, ended = _together(first, bench.stage(name))
    return Injection(name, observed, losses=_judged(ended, {0, 75}))


def _together(first: Running, second: Running) -> tuple[bool, list[Ended]]:
    """Return whether two runs overlapped or one refused because of the other, and how they ended."""
    both = overlapped(first, second)
    ended = [first.wait(), second.wait()]
    return both or any(mentions(each, BUSY) for each in ended if each.code), ended


def _judged(runs: list[Ended], codes: set[int]) -> list[str]:
    """Return losses unless both succeed, or one succeeds and the other one reports that the first is running."""
    losses = [f"exit code {ended.code}: {tail(ended)}" for ended in runs if ended.code not in codes or ended.hung]
    losses += [f"a traceback: {tail(ended)}" for ended in runs if TRACEBACK in ended.said]
    if all(ended.code for ended in runs):
        losses.append(f"neither ended well: {tail(runs[0])} // {tail(runs[1])}")
    quiet = [ended for ended in runs if ended.code in {75, 255} and not mentions(ended, BUSY)]
    return losses + [f"no clear line: {tail(ended)}" for ended in quiet]
