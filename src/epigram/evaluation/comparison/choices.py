"""Systems to choose from by score, time and size: the Pareto front and three named choices.

Systems without a measured time or a size are left out, as are unranked ones, whose development score is not their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epigram.evaluation.records.summary import Row

FAST = 1.0  # milliseconds per text


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A system, and the purpose that it is chosen for."""

    title: str
    system: str


def pareto_front(rows: Sequence[Row]) -> set[str]:
    """Return the systems that no other one beats: in development score, time per text and size, ties allowed in two."""
    known = _comparable(rows)
    return {row.system for row in known if not any(_beats(other, row) for other in known)}


def _comparable(rows: Sequence[Row]) -> list[Row]:
    measured = [row for row in rows if row.ms_per_text is not None and row.megabytes is not None]
    return [row for row in measured if row.outcome != "unranked"]


def _beats(other: Row, row: Row) -> bool:
    theirs, ours = _costs(other), _costs(row)
    return theirs != ours and all(a <= b for a, b in zip(theirs, ours, strict=True))


def _costs(row: Row) -> tuple[float, float, float]:
    return -row.dev_score, row.ms_per_text or 0.0, row.megabytes or 0.0


def three_choices(rows: Sequence[Row]) -> list[Choice]:
    """Return the best system on dev, the best one that is fast, and the smallest system tied with the best.

    A choice without a system is left out; so is the random baseline, which has no parameters.
    """
    known = [row for row in _comparable(rows) if row.parameters]
    tied = [row for row in known if row.outcome != "worse"]
    fast = [row for row in known if (row.ms_per_text or 0.0) < FAST]
    found = [
        ("best", min(known, key=_costs, default=None)),
        (f"best under {FAST:g} ms per text", min(fast, key=_costs, default=None)),
        ("smallest of the best and its ties", min(tied, key=lambda row: (row.megabytes, *_costs(row)), default=None)),
    ]
    return [Choice(title=title, system=row.system) for title, row in found if row is not None]
