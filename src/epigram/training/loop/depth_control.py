"""Record of the layers that a model drops at its evaluations (DDCF)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epigram.training.loop.callback import Callback
from epigram.training.loop.plan import Event
from epigram.training.loop.record import Record
from epigram.training.objectives.base import Evaluation

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


class RecordDepth(Callback):
    """Events of dropped layers; after each, the search for the best weights starts again."""

    def __init__(self, model: Any) -> None:
        self.initial = len(model.dropped)

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Record the layers that the evaluation has dropped."""
        record, model = trainer.record, trainer.model
        known = self.initial + sum(event.kind == "drop" for event in record.events)
        record.events += [Event(trainer.position.step, "drop", layer) for layer in model.dropped[known:]]
        if model.depth != record.depth:
            record.depth, record.score, record.stale = model.depth, Record().score, 0
