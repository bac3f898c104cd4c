"""Fitters by the kind of the model. Each module registers two functions under the kind's name.

The first fits a model: it takes the model, the batches of train and of dev, and the options, and returns the trained
model. With a choice in its options it needs no dev. The second fits a model on each fold of train, and returns what the
folds choose together, with their predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from epigram.core.registry import Registry
from epigram.models.batches import TextBatches
from epigram.training.trained import FitOptions, Fold, FoldResults, Trained

KINDS: Registry[Callable[[Any, TextBatches, TextBatches | None, FitOptions], Trained]] = Registry(__name__)
ON_FOLDS: Registry[Callable[[Iterable[Fold]], FoldResults]] = Registry(__name__)
register, register_on_folds = KINDS.register, ON_FOLDS.register
