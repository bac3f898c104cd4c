"""One trial: restore, strike, look, run again, look again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from tests.drill.bench import Bench, Ended
from tests.drill.checks import after_fault, after_recovery
from tests.drill.faults import Fault


@dataclass(frozen=True)
class Trial:
    """What one trial found."""

    number: int
    fault: str
    detail: str
    losses: tuple[str, ...]
    struck: bool
    mended: bool
    seconds: float

    def __str__(self) -> str:
        verdict = "LOSS" if self.losses else "ok" if self.struck else "ok (too late)"
        mended = ", mended" if self.mended else ""
        lines = [f"{self.number:4d}  {verdict:13s}  {self.seconds:5.1f} s  {self.fault}: {self.detail}{mended}"]
        return "\n".join([*lines, *(f"      {loss}" for loss in self.losses)])


def run(bench: Bench, number: int, fault: Fault, seed: str) -> Trial:
    """Let `fault` strike once; the same seed gives the same fault."""
    began = time.monotonic()
    bench.restore(f"{number}-{seed}")
    struck = fault.strike(bench, random.Random(seed))
    losses = struck.losses + after_fault(bench, struck.ended, struck.codes)
    again, mended = _again(bench, struck.by)
    losses += after_recovery(bench, again)
    return Trial(number, fault.name, struck.detail, tuple(losses), struck.struck, mended, time.monotonic() - began)


def _again(bench: Bench, by: str) -> tuple[Ended, bool]:
    """The next run, and whether DVC needed `make mend` first: it says so by refusing."""
    if by == "flow":
        return bench.flow().wait(), False
    if by == "dvc" and not (ended := bench.dvc().wait()).code:
        return ended, False
    bench.mend().wait()
    return bench.dvc().wait(), True
