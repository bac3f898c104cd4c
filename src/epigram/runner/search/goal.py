"""What a search is asked for: a quality and a time budget, and the clock that it runs against."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError

Quality = Literal["fast", "good", "best"]
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MIN_BUDGET = 30.0  # seconds; less is spent before the first system is trained


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A time budget in seconds, the final training and the report included, and the quality to search for."""

    seconds: float
    quality: Quality = "good"


def parse_goal(budget: str, quality: str) -> Goal:
    """Return the goal of a budget such as 90s, 20m or 1.5h. Raises ParameterError for an invalid value."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh])", budget)
    if found is None:
        raise ParameterError(f"invalid --budget {shown(repr(budget))}: expected a time, for example 90s, 20m or 1h")
    seconds = float(found[1]) * UNITS[found[2]]
    if seconds < MIN_BUDGET:
        raise ParameterError(f"--budget is {shown(budget)}, but a run takes at least {MIN_BUDGET:.0f}s")
    if quality not in get_args(Quality):
        raise ParameterError(f"--quality is {shown(repr(quality))}; expected {', '.join(get_args(Quality))}")
    return Goal(seconds=seconds, quality=quality)  # type: ignore[arg-type]


@dataclass
class Stopwatch:
    """Time since the start of a search; `now` returns seconds."""

    budget: float
    now: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start."""
        self.started = self.now()

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        return self.budget - (self.now() - self.started)
