"""Fit of the random baseline: count the labels of the training texts."""

from __future__ import annotations

import numpy as np

from epigram.models.batches import TextBatches
from epigram.models.random_baseline import RandomBaseline


def fit(model: RandomBaseline, train: TextBatches, dev: TextBatches, *, seed: int) -> None:
    """Set the label frequencies of `train`; `dev` is ignored, and `seed` determines the draws."""
    labels = train.targets(np.arange(len(train)))
    counts = labels.sum(0) if model.multi else labels.bincount(minlength=model.classes)
    model.install(counts / len(train), seed)
