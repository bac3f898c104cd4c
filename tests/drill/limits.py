"""Faults of the machine and of the numbers: memory, clock, losses that are no number."""

from __future__ import annotations

import os
import random
import re
import resource
from pathlib import Path

import yaml

from tests.drill.bench import STAGE, Bench
from tests.drill.faults import Struck, any_stage, fault, undone
from tests.drill.reference import NEURAL

CLOCK = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@fault("out of memory in a stage", 12)
def out_of_memory(bench: Bench, rng: random.Random) -> Struck:
    """From a random moment on the stage may not take more address space than it has."""
    name = rng.choice([any_stage(bench, rng), f"train@{NEURAL}"])
    bench.forget({name})
    running = bench.stage(name)
    at = rng.uniform(0.3, 1.0) * bench.reference.seconds[name]
    running.after(at)
    pid, more = bench.find(STAGE, running), rng.choice([0, 1, 8, 32]) << 20
    if pid:
        _limit(pid, more)
    return Struck(f"{name} after {at:.1f} s, {more >> 20} MB more", running.wait(), {0, 75}, struck=pid is not None)


def _limit(pid: int, more: int) -> None:
    """The process may take `more` bytes than now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0] or 0)
    size = pages * os.sysconf("SC_PAGESIZE") + more
    resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


@fault("a loss that is no number", 6)
def no_number(bench: Bench, rng: random.Random) -> Struck:
    """A learning rate that no model survives; then the right one."""
    name, path = f"train@{NEURAL}", bench.repo / "params.yaml"
    bench.forget({name})
    before = path.read_text()
    params = yaml.safe_load(before)
    params["systems"][NEURAL]["train"] = {"learning_rate": rng.choice([1e20, 1e30]), "clip": None, "warmup": 0.0}
    path.write_text(yaml.safe_dump(params))
    ended = bench.stage(name).wait()
    path.write_text(before)
    named = re.search(r"error: .*step \d+.* rows \d+", ended.said)
    losses = [] if named else [f"step and rows are not named: {ended.said[-300:]}"]
    return Struck(name, ended, {64}, losses)


@fault("a clock that goes back", 6, missing="" if CLOCK else "libfaketime")
def clock_back(bench: Bench, rng: random.Random) -> Struck:
    """The second of two runs, cut off at different places, happens days before the first."""
    name, days = undone(bench, rng), rng.randint(1, 4000)
    ended = bench.dvc(LD_PRELOAD=str(CLOCK), FAKETIME=f"-{days}d", FAKETIME_DONT_FAKE_MONOTONIC="1").wait()
    return Struck(f"{days} days, {name} and on", ended, {0})
