"""One trial: restore, inject a fault, check, run again, check again."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass

from tests.drill.bench import Bench
from tests.drill.checks import after_fault, after_recovery, tail
from tests.drill.faults import Fault
from tests.drill.place import Ended
from tests.drill.progress import Lost, measure
from tests.drill.shop_bench import ShopBench

REFUSED = 255  # DVC's exit code for every error
# Messages about the two files for which docs/reliability.md recommends `make repair`: DVC's or this project's.
NEEDS_REPAIR = re.compile(
    r"'(\./)?dvc\.lock' (is invalid|validation failed)|RWLock-file '\.dvc/tmp/rwlock'|make repair"
)


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
        repaired = ", repaired" if self.mended else ""
        lost = f", {self.lost.steps} steps ({self.lost.seconds:.1f} s) lost" if self.lost else ""
        lines = [f"{self.number:4d}  {verdict:13s}  {self.seconds:5.1f} s  {self.fault}: {self.detail}{repaired}{lost}"]
        return "\n".join([*lines, *(f"      {loss}" for loss in self.losses)])


@dataclass(frozen=True)
class Recovery:
    """The run after a fault, and the losses found before it ended."""

    ended: Ended
    losses: list[str]
    mended: bool = False


def run(bench: Bench | ShopBench, number: int, fault: Fault, seed: str, turn: int = 0) -> Trial:
    """Inject `fault` once; the same seed and turn give the same fault."""
    began = time.monotonic()
    bench.restore(f"{number}-{seed}")
    bench.turn = turn
    injected = fault.inject(bench, random.Random(seed))
    losses = injected.losses + after_fault(bench, injected.ended, injected.codes)
    mended, lost = False, None
    if injected.recovery:
        losses += injected.recovery()
    elif isinstance(bench, Bench):
        recovery = recover(bench, injected.by)
        losses, mended = losses + recovery.losses + after_recovery(bench, recovery.ended), recovery.mended
        lost = measure(injected.reached, recovery.ended.said) if injected.reached and injected.observed else None
        losses += lost.losses if lost else ()
    seconds = time.monotonic() - began
    return Trial(number, fault.name, injected.detail, tuple(losses), injected.observed, mended, seconds, lost)


def recover(bench: Bench, by: str) -> Recovery:
    """Run again; if DVC refuses, run `make repair` first. A refusal for any other reason is a loss."""
    if by == "flow":
        return Recovery(bench.flow().wait(), [])
    losses: list[str] = []
    if by == "dvc":
        first = bench.dvc().wait()
        if not first.code and not first.hung:
            return Recovery(first, [])
        losses = _of("the first run", refusal_losses(first) + after_fault(bench, first, {REFUSED}))
    losses += _of("make repair", after_fault(bench, bench.repair().wait(), {0}))
    return Recovery(bench.dvc().wait(), losses, mended=not losses)


def refusal_losses(ended: Ended) -> list[str]:
    """Return a loss unless `dvc repro` named, in one line, a file that `make repair` repairs."""
    named = [line for line in ended.said.splitlines() if NEEDS_REPAIR.search(line)]
    return [] if len(named) == 1 else [f"dvc repro failed, and not for what `make repair` repairs: {tail(ended)}"]


def _of(what: str, losses: list[str]) -> list[str]:
    return [f"{what}: {loss}" for loss in losses]
