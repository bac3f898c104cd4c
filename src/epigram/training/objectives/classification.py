"""Objective of classification: the loss of the model's head, and the score on dev that `stop_on` names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.evaluation.metrics.primary import TASK_METRIC, PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.precision import matmul_precision
from epigram.models.predict import Predicted, gold_labels
from epigram.nn.layers.loss import PLAIN, LossOptions
from epigram.training.config import TrainingConfig
from epigram.training.dev_score import DevScore
from epigram.training.distributed import parallel
from epigram.training.objectives.base import Batch, Batches, Evaluation, Objective


def loss_options(config: TrainingConfig, train: TextBatches) -> LossOptions:
    """Return the options of the loss of text labels for the training texts `train`, on their device."""
    weight = None
    if config.class_weight == "balanced":
        weight = torch.from_numpy(balanced_weights(gold_labels(train))).to(train.device)
    if weight is None and not config.label_smoothing and not config.focal_gamma:
        return PLAIN
    return LossOptions(weight=weight, smoothing=config.label_smoothing, focal_gamma=config.focal_gamma)


def balanced_weights(labels: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """Return the weight of each class that has texts, (C,), for class indices (N,) or indicators (N, C).

    A class with n of the N texts has the weight N / (P · n), where P is the number of classes with texts, as in
    scikit-learn. With several labels per text it is (N − n) / n, so that texts with the label and texts without it
    have the same share of the loss. A class of no or all texts has the weight 1.
    """
    rows = len(labels)
    counts = np.bincount(labels) if labels.ndim == 1 else (labels > 0).sum(0)
    if labels.ndim == 1:
        wanted = rows / (np.count_nonzero(counts) * np.maximum(counts, 1))
        return np.where(counts > 0, wanted, 1.0).astype(np.float32)
    return np.where((counts > 0) & (counts < rows), (rows - counts) / np.maximum(counts, 1), 1.0).astype(np.float32)


ROWS_SHOWN = 8  # rows in the first line of an error


class Classification(Objective):
    """Labels of the texts of `train`, or of their tokens if the head has a loss for them.

    The score that `config.stop_on` names, on `dev`, selects the weights. A training by a plan has no dev. With
    `keeps_logits`, an evaluation has the logits of dev.
    """

    size_settings = "train.batch_size, train.max_tokens or train.max_length"

    def __init__(
        self,
        train: TextBatches,
        dev: TextBatches | None,
        config: TrainingConfig,
        *,
        metric: PrimaryMetric = TASK_METRIC,
        keeps_logits: bool = False,
    ) -> None:
        self.dev_score = DevScore(config.stop_on, metric)
        self.train, self.dev, self.config, self.keeps_logits = train, dev, config, keeps_logits
        self.device, self.size = train.device, len(train)

    def prepare(self, model: Any) -> None:
        """Set the options of the head's loss of text labels."""
        if isinstance(model, NeuralClassifier):
            model.head.loss_options = loss_options(self.config, self.train)

    def epoch(self, order: np.random.Generator) -> Batches:
        """Return batches of texts of similar length."""
        batches = self.train.epoch(order, self.config.batch_size, self.config.max_tokens)
        return [Batch(self.train, rows) for rows in batches]

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the loss that the model's head computes."""
        texts, rows = batch
        with matmul_precision(self.config.precision, self.device):
            loss: Tensor = model(texts.gather(rows), texts.targets(rows)).loss
        return loss

    def evaluate(self, model: Any, *, adapt: bool) -> Evaluation | None:
        """Return the scores on dev; None if a logit is not finite."""
        assert self.dev is not None
        labels = gold_labels(self.dev)
        predicted = parallel.predict_synchronized(model, self.dev, self.config.precision)
        if not np.isfinite(predicted.logits).all():
            return None
        if adapt and predicted.parts is not None and model.adapt(self._alphas(predicted)):  # DMSP, Algorithm 1
            predicted = parallel.predict_synchronized(model, self.dev, self.config.precision)
        logits = predicted.logits if self.keeps_logits else None
        return Evaluation(self.score(predicted), predicted.loss(labels), predicted.score(labels), logits)

    def _alphas(self, predicted: Predicted) -> list[float]:
        """Return the score α of the text labels by each part."""
        assert self.dev is not None and predicted.parts is not None
        texts = DevScore("sentence", self.dev_score.metric)
        return texts.of_parts(predicted.parts, self.dev, multi=predicted.multi)

    def score(self, predicted: Predicted) -> float:
        """Return the score that selects the weights."""
        assert self.dev is not None
        return self.dev_score.of(predicted, self.dev)

    def shown(self, score: float) -> str:
        """Format a score of an evaluation, for the progress."""
        return self.dev_score.text(score)

    def explain_divergence(self, batch: Batch) -> str:
        """Return the rows of the batch, and the settings to change."""
        rows = batch.rows
        shown = ", ".join(map(str, rows[:ROWS_SHOWN])) + (" …" if len(rows) > ROWS_SHOWN else "")
        return (
            f", on training rows {shown}; lower train.learning_rate, or set train.rollbacks to roll back and halve the "
            f"rate that many times\nrow numbers, from 0: {', '.join(map(str, rows))}"
        )
