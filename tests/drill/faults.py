"""The register of faults. Each fault is injected into a bench that has just been restored, and reports what it did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.drill.bench import Bench, Ended
from tests.drill.progress import Reached


@dataclass(frozen=True)
class Injection:
    """One injected fault: `ended` is the command that it was meant for, `codes` its allowed exit codes (None: any).

    `observed` is True only where there is evidence that the fault hit: an exit code, a message, a changed file, a
    request. `losses` are those that the fault itself found; `reached` is how far a training came before kill -9.
    """

    detail: str
    observed: bool
    ended: Ended | None = None
    codes: set[int] | None = None
    losses: list[str] = field(default_factory=list)
    by: str = "dvc"  # what the next run is: dvc, flow, or mend (`make mend`, then dvc)
    reached: Reached | None = None


Inject = Callable[[Bench, random.Random], Injection]


@dataclass(frozen=True)
class Fault:
    """A kind of fault. A greater `weight` is drawn more often; `mounts` needs file systems of its own.

    `missing` names a package that the fault needs and that is not installed.
    """

    name: str
    inject: Inject
    weight: int
    mounts: bool
    missing: str

    def left_out(self, *, mounted: bool) -> str:
        """Return why the fault cannot be injected here; empty if it can."""
        if self.missing:
            return f"{self.missing} is not installed"
        return "nothing can be mounted here" if self.mounts and not mounted else ""


FAULTS: dict[str, Fault] = {}


def fault(name: str, weight: int = 2, *, mounts: bool = False, missing: str = "") -> Callable[[Inject], Inject]:
    """Register a fault."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, weight, mounts, missing)
        return inject

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


def alone(bench: Bench, name: str) -> float:
    """Seconds that a stage takes without DVC, about."""
    return 0.7 * bench.reference.seconds[name]
