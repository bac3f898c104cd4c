"""What a search is asked for: a quality and a time budget, and the clock that it runs against."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError

Quality = Literal["fast", "good", "best"]
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MIN_BUDGET = 40.0  # seconds that a run of a small data set takes with the linear system alone


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A time budget in seconds, the final training and the report included, and the quality to search for."""

    seconds: float
    quality: Quality = "good"

    @property
    def warning(self) -> str | None:
        """What to tell the user before a run that cannot keep the budget; None if it can."""
        if self.seconds >= MIN_BUDGET:
            return None
        needed = f"a run takes at least about {MIN_BUDGET:g}s"
        return f"note: --budget is {self.seconds:g}s, but {needed}: it goes on with the fastest system, past the time"


def parse_goal(budget: str, quality: str) -> Goal:
    """Return the goal of a budget such as 90s, 20m or 1.5h. Raises ParameterError for an invalid value."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh])", budget)
    if found is None:
        raise ParameterError(f"invalid budget {shown(repr(budget))}: expected a time, for example 90s, 20m or 1h")
    seconds = float(found[1]) * UNITS[found[2]]
    if quality not in get_args(Quality):
        raise ParameterError(f"quality is {shown(repr(quality))}; expected {', '.join(get_args(Quality))}")
    return Goal(seconds=seconds, quality=quality)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stopwatch:
    """Time since `started`; `now` returns seconds."""

    budget: float
    started: float
    now: Callable[[], float] = time.monotonic

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        return self.budget - (self.now() - self.started)
