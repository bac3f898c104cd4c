"""Most confident errors of a system; they reveal wrong labels and weaknesses of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.evaluation.arrays import Ints
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
    confidence = mean.errors()
    order = np.argsort(-confidence, kind="stable")[:count].tolist()
    return [
        Mistake(
            row=int(rows[i]),
            text=_truncate(texts[i]),
            gold=gold,
            predicted=predicted,
            probability=float(confidence[i]),
        )
        for i, (gold, predicted) in ((i, mean.named(labels, i)) for i in order)
        if confidence[i] >= 0
    ]


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
