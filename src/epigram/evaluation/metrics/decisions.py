"""Predicted labels from probabilities: the chosen label, or all labels above a threshold."""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Floats, Ints
from epigram.evaluation.metrics.multi_label import MultiLabelPredictions
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.metrics.single_label import SingleLabelPredictions
from epigram.evaluation.records.results import Decision, Task
from epigram.evaluation.tuning.thresholds import tuned_thresholds


def seed_thresholds(
    task: Task, dev_labels: Ints, dev_probabilities: Floats, decision: Decision, *, per_label: bool = False
) -> Floats:
    """Return thresholds (K, C) tuned on the development set; (K, 0) for single-label, which needs none.

    If a decoder decides, they are 0.5: only the labels that it chose have a higher probability. `per_label`: see
    `tuned_thresholds`.
    """
    if task == "single":
        return np.zeros((len(dev_probabilities), 0))
    if decision == "decoder":
        return np.full((len(dev_probabilities), dev_labels.shape[1]), 0.5)
    return np.stack(
        [tuned_thresholds(dev_labels.astype(bool), seed, per_label=per_label) for seed in dev_probabilities]
    )


def predict_labels(
    task: Task,
    labels: Ints,
    probabilities: Floats,
    thresholds: Floats,
    decision: Decision = "threshold",
    folds: Ints | None = None,
    *,
    per_label: bool = False,
    prices: Floats | None = None,
) -> SplitPredictions:
    """Predict the most likely label, the label with the least expected price, or each label above its threshold.

    `labels` are (N,), or (N, C) of 0 and 1, and `thresholds` (K, C). If the rows have `folds` (N,), each row has the
    thresholds that are tuned on the rows of the other folds, `per_label` as in `tuned_thresholds`.
    """
    if task == "single":
        return SingleLabelPredictions(probabilities, labels, prices)
    of_rows = np.broadcast_to(thresholds[:, None], probabilities.shape).copy()
    for fold in [] if folds is None else np.unique(folds):
        others = folds != fold
        own = seed_thresholds(task, labels[others], probabilities[:, others], decision, per_label=per_label)
        of_rows[:, ~others] = own[:, None]
    return MultiLabelPredictions(probabilities, probabilities > of_rows, labels.astype(bool))
