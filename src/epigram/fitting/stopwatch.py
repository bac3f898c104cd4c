"""A time budget, and the clock that it runs against."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
TOLERATED = 0.1  # share of the budget that may be exceeded without a note


def parse_budget(budget: str) -> float:
    """Return the seconds of a budget such as 90s, 20m or 1.5h. Raises ParameterError for an invalid value."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh])", budget)
    if found is None:
        raise ParameterError(f"invalid budget {shown(repr(budget))}: expected a time, for example 90s, 20m or 1h")
    return float(found[1]) * UNITS[found[2]]


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

    def overrun(self) -> str:
        """Return how long it took, if that is more than the budget with its tolerance; else an empty text."""
        seconds = self.now() - self.started
        if seconds <= (1 + TOLERATED) * self.budget:
            return ""
        return (
            f"this took {seconds:.0f} s: the budget of {self.budget:.0f} s does not limit reading the texts, the first "
            "training and the report"
        )
