"""Facts of a training that a checkpoint keeps: its evaluations, its decisions and its position in the batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from epigram.training.loop.plan import Event

CHECK_INTERVAL = 20  # steps between two checks of the loss


@dataclass
class Record:
    """Best evaluation so far, and the history of evaluations."""

    score: tuple[float, float] = (float("-inf"), float("-inf"))  # dev score by `stop_on`, then minus dev loss
    accuracy: float = 0.0  # accuracy or micro-F1 of the texts of dev at the best evaluation
    epoch: int = 0
    step: int = 0
    depth: int = 0
    stale: int = 0  # evaluations since the best
    stale_steps: int = 0  # steps from the best evaluation to the last
    history: list[dict[str, float]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # dropped layers and decays of the rate


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
