"""Objective of token labels: the loss is that of classification, but the tokens' labels on dev select the weights."""

from __future__ import annotations

from epigram.models.batches import TextBatches
from epigram.models.predict import Predicted, dev_score
from epigram.training.config import TrainingConfig
from epigram.training.objectives.classification import Classification


class TokenLabels(Classification):
    """Labels of tokens, and of texts if the head has a loss for them.

    The token micro-F1 selects the weights; with `stop_on: mean`, its mean with the score of the texts.
    """

    def score(self, predicted: Predicted) -> float:
        """Return the score that selects the weights."""
        return dev_score(predicted, self.dev, self.config.stop_on)


def label_objective(train: TextBatches, dev: TextBatches, config: TrainingConfig) -> Classification:
    """Return the objective that `config.stop_on` names: of token labels, or of classification."""
    kind = Classification if config.stop_on == "sentence" else TokenLabels
    return kind(train, dev, config)
