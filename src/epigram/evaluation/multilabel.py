"""Scores of multi-label predictions."""

from __future__ import annotations

from epigram.evaluation.arrays import Bools
from epigram.evaluation.metrics import averaged
from epigram.evaluation.results import Scores


def scores(gold: Bools, predicted: Bools) -> Scores:
    """Return the scores of two (N, C) indicator arrays."""
    return averaged(
        (gold & predicted).sum(0),
        predicted.sum(0),
        gold.sum(0),
        multi=True,
        accuracy=float((gold == predicted).all(1).mean()),
        hamming_loss=float((gold != predicted).mean()),
    )
