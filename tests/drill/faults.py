"""Registry of faults. Each fault is injected into a newly restored bench and reports what it did."""

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
    """One injected fault.

    `ended` is the command for which the fault was meant; `codes` are its allowed exit codes (None: any). `observed` is
    True only if there is evidence that the fault hit: an exit code, a message, a changed file or a request. `losses`
    are those that the fault itself found. `reached` is the progress of a training before kill -9. `recovery` replaces
    the next run of the pipeline and returns the losses that it found.
    """

    detail: str
    observed: bool
    ended: Ended | None = None
    codes: set[int] | None = None
    losses: list[str] = field(default_factory=list)
    by: str = "dvc"  # the next run: dvc, flow, or repair (`make repair`, then dvc)
    reached: Reached | None = None
    recovery: Callable[[], list[str]] | None = None


Inject = Callable[[Any, random.Random], Injection]  # the first argument is a Bench or a ShopBench


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    A fault with a higher `weight` is drawn more often; one with `mounts` needs file systems of its own. `missing` names
    a required package that is not installed. Of 100 faults, at least `percent` are of this kind. A `shop` fault is
    injected into a ShopBench instead of a Bench.
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


CHAIN = 3  # stages that are undone before a fault under DVC or the flow
ALL = 0.1  # probability that instead all dependent stages are undone

FAULTS: dict[str, Fault] = {}


def fault(name: str, weight: int = 2, *, mounts: bool = False, missing: str = "") -> Callable[[Inject], Inject]:
    """Return a decorator that registers a fault."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, weight, mounts, missing)
        return inject

    return register


def shop_fault(name: str, percent: int, *, mounts: bool = False) -> Callable[[Inject], Inject]:
    """Return a decorator that registers a fault of retraining: exactly `percent` of 100 faults are of this kind."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, 0, mounts, "", percent, shop=True)
        return inject

    return register


def any_stage(bench: Bench, rng: random.Random) -> str:
    """Return a random stage of the pipeline."""
    return rng.choice(sorted(bench.reference.lock))


def undone(bench: Bench, rng: random.Random) -> str:
    """Undo a random stage and the next stages that depend on it, sometimes all of them; return the stage.

    The other stages are kept: they are up to date once their inputs are the same again.
    """
    name, needing = any_stage(bench, rng), bench.reference.after
    chain = [each for each in bench.reference.needs if each in needing(name)]
    some = len(chain) if rng.random() < ALL else CHAIN
    bench.forget(set(chain[:some]), thoroughly=rng.random() < 0.5)
    return name


def span(bench: Bench) -> float:
    """Return the run time in seconds of the undone stages."""
    return sum(bench.reference.seconds[each] for each in bench.forgotten)


def alone(bench: Bench, name: str) -> float:
    """Return the approximate run time in seconds of a stage without DVC."""
    return 0.7 * bench.reference.seconds[name]
