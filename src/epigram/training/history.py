"""State of a training: its progress, its best evaluation and its position in the batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from epigram.training.plan import Event

CHECK_INTERVAL = 20  # steps between two checks of the loss


@dataclass(frozen=True)
class Progress:
    """Progress of a training, for reports to the user."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    dev: float | None  # best score on dev; None before the first evaluation
    texts_per_second: float
    seconds_left: float
    note: str = ""  # an event, if there was one


def estimate_pace(seconds: float, done: int, left: int) -> tuple[float, float]:
    """Return steps per second, and the seconds for `left` steps, given that `done` steps took `seconds`."""
    return done / max(seconds, 1e-9), seconds / max(1, done) * left


Report = Callable[[Progress], None]


@dataclass
class Record:
    """Best evaluation so far, and the history of evaluations."""

    score: tuple[float, float] = (-1.0, float("-inf"))  # dev score by `stop_on`, then minus dev loss
    accuracy: float = 0.0  # or micro-F1, of the texts of dev at that evaluation
    epoch: int = 0
    step: int = 0
    depth: int = 0
    stale: int = 0  # evaluations since then
    stale_steps: int = 0  # from then to the last evaluation
    history: list[dict[str, float]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # decisions by evaluations


@dataclass
class Position:
    """Position of a training in its batches."""

    epoch: int = 1
    done: int = 0  # finished batches of this epoch
    step: int = 0
    order: dict[str, Any] = field(default_factory=dict)  # state of the generator at the start of the epoch
    pieces: int = 1  # per batch; 2 after out of memory
    rollbacks: int = 0  # number of rollbacks
    rollback_step: int = 0  # step of the last rollback; the mean loss restarts after it
