"""Two runs at once."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.drill.bench import Bench, Ended, Running
from tests.drill.checks import TRACEBACK, tail
from tests.drill.faults import Struck, any_stage, fault, undone
from tests.drill.reference import NEURAL

BUSY = ("is busy", "Unable to acquire lock")


@fault("dvc twice at once", 10)
def dvc_twice(bench: Bench, rng: random.Random) -> Struck:
    return _both(bench, rng, (bench.dvc, bench.dvc), 3.0, {0, 255})


@fault("the flow twice at once", 5)
def flow_twice(bench: Bench, rng: random.Random) -> Struck:
    return _both(bench, rng, (bench.flow, bench.flow), 4.0, {0, 75}, by="flow")


@fault("dvc beside the flow", 5)
def dvc_beside_flow(bench: Bench, rng: random.Random) -> Struck:
    return _both(bench, rng, (bench.flow, bench.dvc), 6.0, {0, 75, 255}, by="flow")


def _both(
    bench: Bench,
    rng: random.Random,
    starts: tuple[Callable[[], Running], Callable[[], Running]],
    later: float,
    codes: set[int],
    **again: str,
) -> Struck:
    """The second run starts up to so many seconds after the first; `again` says what runs after them."""
    name = undone(bench, rng)
    first = starts[0]()
    first.after(rng.uniform(0.0, later))
    ended = [run.wait() for run in (first, starts[1]())]
    return Struck(f"{name} and on", losses=_judged(ended, codes), **again)


@fault("two runs with overrides at once", 3)
def workspaces(bench: Bench, rng: random.Random) -> Struck:
    """Each works in a workspace of its own; the cache is shared."""
    runs = [
        bench.flow("--set", f"evaluate.resamples={100 + n}", "--systems", NEURAL, "--name", f"w{n}") for n in (1, 2)
    ]
    return Struck("evaluate and on", losses=_judged([each.wait() for each in runs], {0}))


@fault("a stage twice at once", 6)
def stage_twice(bench: Bench, rng: random.Random) -> Struck:
    name = any_stage(bench, rng)
    bench.forget({name})
    first = bench.stage(name)
    first.after(rng.uniform(0.0, bench.reference.seconds[name]))
    second = bench.stage(name)
    return Struck(name, losses=_judged([first.wait(), second.wait()], {0, 75}))


def _judged(runs: list[Ended], codes: set[int]) -> list[str]:
    """Both end well, or one says that it is not its turn."""
    losses = [f"exit code {ended.code}: {tail(ended)}" for ended in runs if ended.code not in codes or ended.hung]
    losses += [f"a traceback: {tail(ended)}" for ended in runs if TRACEBACK in ended.said]
    if all(ended.code for ended in runs):
        losses.append(f"neither ended well: {tail(runs[0])} // {tail(runs[1])}")
    quiet = [
        ended
        for ended in runs
        if ended.code in {75, 255} and not any(word in ended.said for word in (*BUSY, "another run", "another process"))
    ]
    return losses + [f"no clear line: {tail(ended)}" for ended in quiet]
