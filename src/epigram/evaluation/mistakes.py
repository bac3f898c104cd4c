"""Most confident errors of a system; they reveal wrong labels and weaknesses of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.results import Mistake
from epigram.evaluation.scoring import SplitPredictions

MAX_CHARACTERS = 300  # characters of a text that are kept


def most_confident_errors(
    predictions: SplitPredictions, labels: Sequence[str], rows: Ints, texts: Sequence[str], count: int
) -> list[Mistake]:
    """Return the `count` most confident errors of the combined seeds, most confident first.

    `rows` and `texts` have one entry for each of the N rows.
    """
    mean = predictions.mean()
    gold, predicted, probabilities = mean.gold, mean.predicted[0], mean.probabilities[0]
    # A multi-label model also predicts, with some probability, that a row does not have a label.
    absent = 1.0 - probabilities if mean.task == "multi" else np.zeros_like(probabilities)
    confidence = np.where(predicted != gold, np.where(predicted, probabilities, absent), -1.0).max(1)
    order = np.argsort(-confidence, kind="stable")[:count]
    return [
        Mistake(
            row=int(rows[i]),
            text=_truncate(texts[i]),
            gold=_names(labels, gold[i]),
            predicted=_names(labels, predicted[i]),
            probability=float(confidence[i]),
        )
        for i in order.tolist()
        if confidence[i] >= 0
    ]


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _names(labels: Sequence[str], chosen: Bools) -> list[str]:
    return [label for label, taken in zip(labels, chosen, strict=True) if taken]
