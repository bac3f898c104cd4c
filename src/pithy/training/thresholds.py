"""The thresholds that turn probabilities into labels, where a text may have several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 20  # gold rows from which a label has a threshold of its own; a cut by fewer is chance
PASSES = 5

Floats = NDArray[np.floating[Any]]


def tuned_thresholds(gold: NDArray[np.bool_], probabilities: Floats) -> Floats:
    """Threshold (C,) of every label for the best micro-F1 on these rows; a row has the label where p > threshold.

    `gold` and `probabilities` are (N, C). Tune on development data. All labels share the best single threshold, 0.5
    where no row is gold; then each that has ROWS gold rows moves to where micro-F1 is highest, the others standing
    still, until none moves.
    """
    if not gold.any():
        return np.full(gold.shape[1], 0.5, probabilities.dtype)
    cuts = np.full(gold.shape[1], _best_cut(gold.ravel(), probabilities.ravel(), 0, 0, int(gold.sum())))
    common = [c for c in range(gold.shape[1]) if gold[:, c].sum() >= ROWS]
    for _ in range(PASSES):
        before = cuts.copy()
        for c in common:
            said = probabilities > cuts
            said[:, c] = False
            cuts[c] = _best_cut(
                gold[:, c], probabilities[:, c], int((said & gold).sum()), int(said.sum()), int(gold.sum())
            )
        if np.array_equal(cuts, before):
            break
    return cuts


def _best_cut(gold: NDArray[np.bool_], probabilities: Floats, hits: int, said: int, positives: int) -> Any:
    """The cut of `probabilities` (N,) with the best F1, where `hits` right and `said` labels come from elsewhere."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, ones = probabilities[order], np.ones(1, probabilities.dtype)
    above, below = np.concatenate([ones, ranked]), np.concatenate([ranked, 0 * ones])
    right = hits + np.concatenate([[0], gold[order].cumsum()])
    f1 = 2 * right / (said + np.arange(len(above)) + positives)
    best = np.where(above > below, f1, -1.0).argmax()  # a cut between two equal probabilities cannot be made
    middle = (above[best] + below[best]) / 2
    return middle if middle < above[best] else below[best]  # between neighbours among the numbers there is none
