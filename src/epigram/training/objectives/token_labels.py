"""Objective of token labels: the loss is that of classification, but another score on dev selects the weights."""

from __future__ import annotations

from epigram.models.batches import TextBatches
from epigram.models.predict import Predicted, dev_score
from epigram.training.config import TrainingConfig
from epigram.training.objectives.classification import Classification
from epigram.training.objectives.distillation import Distillation


class TokenLabels(Classification):
    """Labels of tokens, and of texts if the head has a loss for them.

    The score that `stop_on` names selects the weights, for example the micro-F1 of the tokens.
    """

    def score(self, predicted: Predicted) -> float:
        """Return the score that selects the weights."""
        assert self.dev is not None
        return dev_score(predicted, self.dev, self.config.stop_on)


def label_objective(train: TextBatches, dev: TextBatches | None, config: TrainingConfig) -> Classification:
    """Return the objective: of a student if the labels of `train` are probabilities, else what `config.stop_on` names.

    Without `stop_on: sentence` it is that of token labels.
    """
    if train.labels is not None and train.labels.is_floating_point():
        return Distillation(train, dev, config)
    kind = Classification if config.stop_on == "sentence" else TokenLabels
    return kind(train, dev, config)
