"""A time budget, and the clock that it runs against."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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
