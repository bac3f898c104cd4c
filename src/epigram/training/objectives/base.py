"""Base class of the objectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from epigram.models.batches import Rows, TextBatches
from epigram.models.predict import Array
from epigram.training.config import TrainingConfig


class Batch(NamedTuple):
    """The texts `rows` (B,) of `texts`."""

    texts: TextBatches
    rows: Rows


class Batches(Sized, Iterable[Batch], Protocol):
    """All batches of an epoch, in order."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation on held-out texts: the `score` that selects the weights, the mean loss, and the accuracy.

    `logits` (N, C) are None unless the objective keeps them.
    """

    score: float
    loss: float
    accuracy: float
    logits: Array | None = None


class Objective:
    """What a Trainer minimizes, on which texts, and how it scores a model. A subclass overrides the first methods.

    `size` is the number of texts of an epoch.
    """

    keeps_last: ClassVar[bool] = False  # keep the last step's weights instead of the best
    size_settings: ClassVar[str]  # the settings that limit the memory of a batch, for messages
    config: TrainingConfig
    device: torch.device
    size: int

    def prepare(self, model: Any) -> None:
        """Prepare `model` for the training; by default nothing."""

    def epoch(self, order: np.random.Generator) -> Batches:
        """Return the batches of an epoch, in an order drawn from `order`."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        raise NotImplementedError

    def evaluate(self, model: Any, *, adapt: bool) -> Evaluation | None:
        """Return the evaluation of `model` on held-out texts; None if its predictions are not finite.

        With `adapt`, a model that controls its depth may drop a layer first.
        """
        raise NotImplementedError

    def explain_divergence(self, batch: Batch) -> str:
        """Return the end of the message for a NaN or infinite loss on `batch`: where it is, and what to change."""
        raise NotImplementedError

    def shown(self, score: float) -> str:
        """Format a score of an evaluation, for the progress."""
        return f"{100 * score:.1f}"

    def state(self) -> dict[str, Tensor]:
        """Return what the next step depends on besides model and optimizer; by default nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
