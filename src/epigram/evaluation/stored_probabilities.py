"""Probabilities as fields of `Predictions`, and back."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.label_probabilities import TOP, LabelProbabilities, Probabilities
from epigram.evaluation.results import Evaluation

SplitName = Literal["dev", "test"]


def fields_of(split: SplitName, probabilities: Probabilities) -> dict[str, Any]:
    """Return the fields of `Predictions` for the probabilities of a split, in single precision."""
    if not isinstance(probabilities, LabelProbabilities):
        return {f"{split}_probabilities": _single(probabilities)}
    known: dict[str, Any] = {f"{split}_probabilities": _single(probabilities.values)}
    if probabilities.classes > TOP:
        known |= {
            f"{split}_top_labels": np.ascontiguousarray(probabilities.labels),
            f"{split}_rest": _single(probabilities.rest),
        }
    return known


def probabilities_of(evaluation: Evaluation, split: SplitName) -> Probabilities:
    """Return the probabilities of a split (K, N, C).

    Older versions wrote those of all labels, whatever their number.
    """
    metrics, known = evaluation.metrics, vars(evaluation.predictions)
    values, labels, rest = (known[f"{split}_{name}"] for name in ("probabilities", "top_labels", "rest"))
    if labels is not None:
        return LabelProbabilities(labels, values, rest, len(metrics.labels))
    return values if metrics.task == "multi" else LabelProbabilities.of(values)


def _single(values: Floats) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
