"""Fitters by the kind of the model. Each module registers one function that fits a model, under the kind's name.

The function takes the model, the batches of train and of dev, and the options; it returns the trained model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epigram.core.registry import Registry
from epigram.models.batches import TextBatches
from epigram.training.trained import FitOptions, Trained

KINDS: Registry[Callable[[Any, TextBatches, TextBatches, FitOptions], Trained]] = Registry(__name__)
register = KINDS.register
