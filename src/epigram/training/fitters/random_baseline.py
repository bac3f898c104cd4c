"""Fit of the random baseline: count the labels of the training texts."""

from __future__ import annotations

import numpy as np

from epigram.models.batches import TextBatches
from epigram.models.random_baseline import RandomBaseline
from epigram.training import fitters
from epigram.training.trained import FitOptions, Trained, closed_form


@fitters.register("random_baseline")
def fit_model(model: RandomBaseline, train: TextBatches, dev: TextBatches, options: FitOptions) -> Trained:
    """Count the labels of `train`."""
    fit(model, train, dev, seed=options.seed)
    return closed_form(model, dev)


def fit(model: RandomBaseline, train: TextBatches, dev: TextBatches, *, seed: int) -> None:
    """Set the label frequencies of `train`; `dev` is ignored, and `seed` determines the draws."""
    labels = train.targets(np.arange(len(train)))
    counts = labels.sum(0) if model.multi else labels.bincount(minlength=model.classes)
    model.install(counts / len(train), seed)
