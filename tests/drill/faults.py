"""The register of faults. Each fault is injected into a bench that has just been restored, and reports what it did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.drill.bench import Bench
from tests.drill.place import Ended
from tests.drill.progress import Reached


@dataclass(frozen=True)
class Injection:
    """One injected fault: `ended` is the command that it was meant for, `codes` its allowed exit codes (None: any).

    `observed` is True only where there is evidence that the fault hit: an exit code, a message, a changed file, a
    request. `losses` are those that the fault itself found; `reached` is how far a training came before kill -9.
    `recovery` is what is done after the fault in the place of another run of the pipeline: it returns the losses found.
    """

    detail: str
    observed: bool
    ended: Ended | None = None
    codes: set[int] | None = None
    losses: list[str] = field(default_factory=list)
    by: str = "dvc"  # what the next run is: dvc, flow, or mend (`make mend`, then dvc)
    reached: Reached | None = None
    recovery: Callable[[], list[str]] | None = None


Inject = Callable[[Any, random.Random], Injection]  # the place is a Bench or a ShopBench


@dataclass(frozen=True)
class Fault:
    """A kind of fault. A greater `weight` is drawn more often; `mounts` needs file systems of its own.

    `missing` names a package that the fault needs and that is not installed. Of 100 faults at least `percent` are of
    this kind. `shop`: it is injected into a ShopBench, and not into a Bench.
    """

    name: str
    inject: Inject
    weight: int
    mounts: bool
    missing: str
    percent: int = 0
    shop: bool = False

    def left_out(self, *, mounted: bool) -> str:
        """Return why the fault cannot be injected here; empty if it can."""
        if self.missing:
            return f"{self.missing} is not installed"
        return "nothing can be mounted here" if self.mounts and not mounted else ""


CHAIN = 3  # stages that a fault under DVC or the flow finds undone
ALL = 0.1  # how often these are all that need the first one

FAULTS: dict[str, Fault] = {}


def fault(name: str, weight: int = 2, *, mounts: bool = False, missing: str = "") -> Callable[[Inject], Inject]:
    """Register a fault."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, weight, mounts, missing)
        return inject

    return register


def shop_fault(name: str, percent: int, *, mounts: bool = False) -> Callable[[Inject], Inject]:
    """Register a fault of retraining: so many of 100 faults are of this kind, and no more."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, 0, mounts, "", percent, shop=True)
        return inject

    return register


def any_stage(bench: Bench, rng: random.Random) -> str:
    """A stage of the pipeline."""
    return rng.choice(sorted(bench.reference.lock))


def undone(bench: Bench, rng: random.Random) -> str:
    """Forget a stage and the next ones that need it, now and then all of them; the stage.

    The others stay: once what they read is the same again, they are up to date.
    """
    name, needing = any_stage(bench, rng), bench.reference.after
    chain = [each for each in bench.reference.needs if each in needing(name)]
    some = len(chain) if rng.random() < ALL else CHAIN
    bench.forget(set(chain[:some]), thoroughly=rng.random() < 0.5)
    return name


def span(bench: Bench) -> float:
    """Seconds that the stages take which were forgotten."""
    return sum(bench.reference.seconds[each] for each in bench.forgotten)


def alone(bench: Bench, name: str) -> float:
    """Seconds that a stage takes without DVC, about."""
    return 0.7 * bench.reference.seconds[name]
