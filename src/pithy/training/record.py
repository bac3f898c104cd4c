"""Where a training stands: in its batches, in its search for the best weights, and for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OFTEN = 20  # steps between two looks at the loss


@dataclass(frozen=True)
class Progress:
    """Where a training stands, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    dev: float
    texts_per_second: float
    seconds_left: float
    note: str = ""  # what happened, where something did


def pace(seconds: float, done: int, left: int) -> tuple[float, float]:
    """Steps a second, and seconds for those `left`, by the steps `done` in so many `seconds`."""
    return done / max(seconds, 1e-9), seconds / max(1, done) * left


Report = Callable[[Progress], None]


@dataclass
class Record:
    """The best evaluation so far and what led to it."""

    score: tuple[float, float] = (-1.0, float("-inf"))  # what `stop_on` says of dev, then minus dev loss
    accuracy: float = 0.0  # of the texts of dev, or micro-F1, at that evaluation
    epoch: int = 0
    depth: int = 0
    stale: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


@dataclass
class Place:
    """Where a training stands in its batches."""

    epoch: int = 1
    done: int = 0  # batches of this epoch
    step: int = 0
    order: dict[str, Any] = field(default_factory=dict)  # the generator's state at the epoch's start
    pieces: int = 1  # that a batch is cut into, since memory ran out
    back: int = 0  # times that the training went back
    fresh: int = 0  # the step at which it last did: the mean of the losses begins anew behind it
