"""Faults of memory, clock and numbers (losses that are NaN or infinite)."""

from __future__ import annotations

import os
import random
import re
import resource
import sys
import time
from pathlib import Path

import yaml

from tests.drill.bench import STAGE, Bench
from tests.drill.evidence import OUT_OF_MEMORY, answered, mentions
from tests.drill.faults import Injection, any_stage, fault, undone
from tests.drill.reference import NEURAL

CLOCK = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@fault("out of memory in a stage", 12)
def out_of_memory(bench: Bench, rng: random.Random) -> Injection:
    """At a random moment, limit the stage's address space to its current size plus up to 32 MB."""
    name = rng.choice([any_stage(bench, rng), f"train@{NEURAL}"])
    bench.forget({name})
    running = bench.stage(name)
    at = rng.uniform(0.3, 1.0) * bench.reference.seconds[name]
    running.after(at)
    pid, more = bench.find(STAGE, running), rng.choice([0, 1, 8, 32]) << 20
    limited, ended = pid is not None and _limit(pid, more), running.wait()
    observed = answered(limited, ended, {75}) and mentions(ended, OUT_OF_MEMORY)
    return Injection(f"{name} after {at:.1f} s, {more >> 20} MB more", observed, ended, {0, 75})


def _limit(pid: int, more: int) -> bool:
    """Limit the address space to its current size plus `more` bytes; return False if the process has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        size = pages * os.sysconf("SC_PAGESIZE") + more
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return pages > 0


@fault("a loss that is NaN or infinite", 6)
def not_finite(bench: Bench, rng: random.Random) -> Injection:
    """Train with a learning rate that makes the loss NaN or infinite, then restore the right one."""
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
    return Injection(name, named is not None, ended, {64}, losses)


@fault("a clock that goes back", 6, missing="" if CLOCK else "libfaketime")
def clock_back(bench: Bench, rng: random.Random) -> Injection:
    """Run DVC with a clock that is set back by days, so that it runs before the reference run."""
    name, days = undone(bench, rng), rng.randint(1, 4000)
    env = {"LD_PRELOAD": str(CLOCK), "FAKETIME": f"-{days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    shown = bench.start(sys.executable, "-c", "import time; print(time.time())", **env).wait()
    ended = bench.dvc(**env).wait()
    return Injection(f"{days} days, {name} and on", is_behind(shown.said, days), ended, {0})


def is_behind(shown: str, days: int) -> bool:
    """Return whether the printed time is `days` days ago, within an hour."""
    try:
        return abs(time.time() - float(shown) - days * 86400) < 3600
    except ValueError:
        return False
