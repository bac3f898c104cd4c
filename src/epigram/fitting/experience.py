"""Experience: the mean accuracy of systems on benchmarks, by language, training rows and labels.

`python -m benchmarks.accuracy --page` writes the table, which docs/accuracy.md shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

from epigram.core.files import read_json

TABLE = Path(__file__).with_name("experience.json")
SIMILAR = 10**0.5  # factor by which the training rows may differ from those of an experience


@dataclass(frozen=True)
class Experience:
    """Mean accuracy in percent of each system on so many `cells`: samples of data sets with these labels."""

    language: str
    rows: int
    labels: int
    cells: int
    accuracy: Mapping[str, float]


@cache
def table() -> tuple[Experience, ...]:
    """Return the rows of the table."""
    return tuple(Experience(**row) for row in read_json(TABLE))


def nearest(language: str, rows: int, labels: int) -> Experience | None:
    """Return the experience with the nearest number of rows, then of labels; None if no number of rows is similar."""

    def distance(each: Experience) -> tuple[float, float]:
        return abs(log(max(1, rows) / each.rows)), abs(log(labels / each.labels))

    known = [each for each in table() if each.language == language and distance(each)[0] <= log(SIMILAR)]
    return min(known, key=distance, default=None)
