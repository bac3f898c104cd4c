"""Choice of the objective of labelled texts."""

from __future__ import annotations

from epigram.evaluation.metrics.primary import TASK_METRIC, PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.training.config import TrainingConfig
from epigram.training.objectives.classification import Classification
from epigram.training.objectives.distillation import Distillation


def label_objective(
    train: TextBatches,
    dev: TextBatches | None,
    config: TrainingConfig,
    *,
    metric: PrimaryMetric = TASK_METRIC,
    keeps_logits: bool = False,
) -> Classification:
    """Return the objective: distillation if the labels of `train` are probabilities, else classification."""
    probabilities = train.labels is not None and train.labels.is_floating_point()
    return (Distillation if probabilities else Classification)(
        train, dev, config, metric=metric, keeps_logits=keeps_logits
    )
