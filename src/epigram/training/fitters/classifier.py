"""Fit of a classifier: gradient descent by the Trainer."""

from __future__ import annotations

from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier, count_parameters
from epigram.training import fitters
from epigram.training.objectives.token_labels import label_objective
from epigram.training.trained import FitOptions, Trained
from epigram.training.trainer import Trainer


@fitters.register("classifier")
def fit_model(model: Classifier, train: TextBatches, dev: TextBatches, options: FitOptions) -> Trained:
    """Train the model and select the weights on `dev`; with checkpoints, resume from the latest one."""
    depth, size = model.depth, count_parameters(model)
    record = Trainer(
        model,
        label_objective(train, dev, options.config),
        seed=options.seed,
        rate=options.rate,
        report=options.report,
        checkpoints=options.checkpoints,
    ).run()
    return Trained(
        model=model,
        rate=options.rate,
        dev_accuracy=record.accuracy,
        epoch=record.epoch,
        depth=depth,
        parameters=size,
        history=record.history,
    )
