"""Zero-shot prior of a linear classifier: the similarity of a text to the name of each label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.metrics.primary import TASK_METRIC, PrimaryMetric
from epigram.models.predict import Predicted
from epigram.training.dev_score import metric_score

Floats = NDArray[np.floating[Any]]


def prior_weights(names: Floats, x: Floats, labels: NDArray[np.integer], width: int) -> Floats:
    """Return weights (D, C) that give centred encodings about the cosine of a text with the name of each label.

    `names` (C, D) encode the names, of which the mean is subtracted, and `x` (N, D) encodes the training
    texts, whose mean distance from their mean replaces the length of each text. Only the last `width` features count:
    they are from the encoder's last layer, where training brings similar texts close. A label of no training text or of
    all gets no weights; `labels` are class indices (N,) or indicators (N, C).
    """
    apart, last = names - names.mean(0), x[:, -width:]
    apart[:, :-width] = 0.0
    lengths = np.linalg.norm(apart, axis=1) * np.linalg.norm(last - last.mean(0), axis=1).mean()
    counts = np.bincount(labels, minlength=len(names)) if labels.ndim == 1 else labels.sum(0)
    used = (counts > 0) & (counts < len(labels)) & (lengths > 0.0)
    weights: Floats = np.where(used, apart.T / np.where(used, lengths, 1.0), 0.0)
    return weights


def is_worth(
    prior: Predicted, plain: Predicted, labels: NDArray[np.integer], metric: PrimaryMetric = TASK_METRIC
) -> bool:
    """Return whether the `prior` lowers the loss of the `plain` predictions clearly, and not their score by `metric`.

    Otherwise it is chosen with many texts too, where it costs accuracy (docs/development/log.md). The mean loss of the
    N held-out texts has to fall by more than the standard error of its difference.
    """
    gains = (plain.losses(labels) - prior.losses(labels)).reshape(len(labels), -1).mean(1)
    clear = gains.mean() > gains.std() / np.sqrt(len(gains))
    better, worse = (metric_score(each, labels, metric) for each in (prior, plain))
    return bool(clear) and better >= worse
