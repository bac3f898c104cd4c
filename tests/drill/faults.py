"""The register of faults. A fault strikes a bench that has just been restored, and says what it did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.drill.bench import Bench, Ended

Recovery = Callable[[], Ended]


@dataclass(frozen=True)
class Struck:
    """What happened: `ended` is the command that was hit, `codes` its allowed exit codes (None: any).

    `losses` are those that the fault itself saw; `struck` is False where the command was through before.
    """

    detail: str
    ended: Ended | None = None
    codes: set[int] | None = None
    losses: list[str] = field(default_factory=list)
    struck: bool = True
    by: str = "dvc"  # what the next run is: dvc, flow, or dvc after mend


Strike = Callable[[Bench, random.Random], Struck]


@dataclass(frozen=True)
class Fault:
    """A kind of fault; one with a greater weight strikes more often; `mounts` needs file systems of its own.

    `missing` names the package without which it cannot strike.
    """

    name: str
    strike: Strike
    weight: int
    mounts: bool
    missing: str

    def hindered(self, *, mounted: bool) -> str:
        """Why it cannot strike here; empty where it can."""
        if self.missing:
            return f"{self.missing} is not installed"
        return "nothing can be mounted here" if self.mounts and not mounted else ""


FAULTS: dict[str, Fault] = {}


def fault(name: str, weight: int = 2, *, mounts: bool = False, missing: str = "") -> Callable[[Strike], Strike]:
    """Register a fault."""

    def register(strike: Strike) -> Strike:
        FAULTS[name] = Fault(name, strike, weight, mounts, missing)
        return strike

    return register


def any_stage(bench: Bench, rng: random.Random) -> str:
    """A stage of the pipeline."""
    return rng.choice(sorted(bench.reference.lock))


def undone(bench: Bench, rng: random.Random) -> str:
    """Forget a stage and all that need it; the stage."""
    name = any_stage(bench, rng)
    bench.forget(bench.reference.after(name), thoroughly=rng.random() < 0.5)
    return name


def span(bench: Bench, name: str) -> float:
    """Seconds that a stage and all that need it take."""
    return sum(bench.reference.seconds[each] for each in bench.reference.after(name))
