"""Options of the loss of text labels, from the settings and the labels of the training texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.models.batches import TextBatches
from epigram.models.predict import gold_labels
from epigram.nn.layers.loss import PLAIN, LossOptions
from epigram.training.config import TrainingConfig


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
    scikit-learn. With several labels per text it is (N − n) / n, so that the texts with the label and those without it
    have the same share of the loss. A class of no or all texts has the weight 1.
    """
    rows = len(labels)
    counts = np.bincount(labels) if labels.ndim == 1 else (labels > 0).sum(0)
    if labels.ndim == 1:
        wanted = rows / (np.count_nonzero(counts) * np.maximum(counts, 1))
        return np.where(counts > 0, wanted, 1.0).astype(np.float32)
    return np.where((counts > 0) & (counts < rows), (rows - counts) / np.maximum(counts, 1), 1.0).astype(np.float32)
