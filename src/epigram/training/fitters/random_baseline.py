"""Fit of the random baseline: count the labels of the training texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.models.random_baseline import RandomBaseline
from epigram.training import fitters
from epigram.training.fitters import FitOptions, Fold, FoldResults, Trained, closed_form


@fitters.register("random_baseline")
def fit_model(model: RandomBaseline, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Count the labels of `train`."""
    fit(model, train, dev, seed=options.seed)
    return closed_form(model, dev, options.metric)


@fitters.register_on_folds("random_baseline")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Count the labels of the other folds for each fold; there is nothing to choose."""
    found = []
    for fold in folds:
        model, train, dev = fold.load()
        fit(model, train, dev, seed=fold.options.seed)
        found.append(predict(model, dev))
    return FoldResults(choice=True, predictions=found, judged=found)


def fit(model: RandomBaseline, train: TextBatches, dev: TextBatches | None, *, seed: int) -> None:
    """Set the label frequencies of `train`; `dev` is ignored, and `seed` determines the draws."""
    labels = train.targets(np.arange(len(train)))
    counts = labels.sum(0) if model.multi else labels.bincount(minlength=model.classes)
    model.install(counts / len(train), seed)
