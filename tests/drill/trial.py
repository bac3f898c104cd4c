"""One trial: restore, inject a fault, check, run again, check again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from tests.drill.bench import Bench
from tests.drill.checks import REFUSED, Lost, after_fault, after_recovery, measure, refusal_losses
from tests.drill.faults import Fault
from tests.drill.place import Ended


@dataclass(frozen=True)
class Trial:
    """Result of one trial; `mended` says whether `make repair` was run before the next run."""

    number: int
    fault: str
    detail: str
    losses: tuple[str, ...]
    observed: bool
    mended: bool
    seconds: float
    lost: Lost | None = None

    def __str__(self) -> str:
        verdict = "LOSS" if self.losses else "ok" if self.observed else "ok (no hit)"
        lost = f", {self.lost.steps} steps ({self.lost.seconds:.1f} s) lost" if self.lost else ""
        line = f"{self.number:4d}  {verdict:13s}  {self.seconds:5.1f} s  {self.fault}: {self.detail}"
        return "\n".join([f"{line}{', repaired' * self.mended}{lost}", *(f"      {loss}" for loss in self.losses)])


def run(bench: Bench, number: int, fault: Fault, seed: str) -> Trial:
    """Inject `fault` once; the same seed gives the same fault."""
    began = time.monotonic()
    bench.restore(f"{number}-{seed}")
    injected = fault.inject(bench, random.Random(seed))
    losses = injected.losses + after_fault(bench, injected.ended, injected.codes)
    ended, found, mended = recover(bench, injected.by)
    losses += found + after_recovery(bench, ended)
    lost = measure(injected.reached, ended.said) if injected.reached and injected.observed else None
    losses += lost.losses if lost else ()
    seconds = time.monotonic() - began
    return Trial(number, fault.name, injected.detail, tuple(losses), injected.observed, mended, seconds, lost)


def recover(bench: Bench, by: str) -> tuple[Ended, list[str], bool]:
    """Run again; if DVC refuses, run `make repair` first. A refusal for any other reason is a loss.

    Returns the run, the losses before it ended, and whether `make repair` was needed.
    """
    if by == "flow":
        return bench.flow().wait(), [], False
    losses: list[str] = []
    if by == "dvc":
        first = bench.dvc().wait()
        if not first.code and not first.hung:
            return first, [], False
        found = refusal_losses(first) + after_fault(bench, first, {REFUSED})
        losses = [f"the first run: {loss}" for loss in found]
    losses += [f"make repair: {loss}" for loss in after_fault(bench, bench.repair().wait(), {0})]
    return bench.dvc().wait(), losses, not losses
