"""Expected optimism of the best development score of several systems (Efron, 1983: the bootstrap's estimate).

The best of many scores on the same rows is high partly by chance. Rows are resampled; the system that is best on a
resample scores higher there than on all rows, and the mean of this difference estimates by how much the best
development score exceeds the score on new rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.metrics.intervals import bootstrap, score_columns, seed_scores
from epigram.evaluation.metrics.scoring import RowScores

RESAMPLES = 1_000


def expected_optimism(
    systems: Sequence[RowScores], chosen: int = 0, replaced: Sequence[int] = (), resamples: int = RESAMPLES
) -> float:
    """Return the optimism as a share of 1; 0 for one system. Every system has scores (K, N) of the same N rows.

    Where one of the places `replaced` is the best of a resample, the system at the place `chosen` is chosen.
    """
    if len(systems) == 1:
        return 0.0
    columns = [score_columns(each) for each in systems]
    borders = np.cumsum([each.shape[1] for each in columns])[:-1]
    scores = np.array([each.scores().mean() for each in systems])

    def difference(sums: Floats) -> Floats:
        """Return the optimism of each resample, (r,), from the column sums (r, F)."""
        drawn = np.stack([seed_scores(part).mean(1) for part in np.split(sums, borders, axis=1)], axis=1)
        best = drawn.argmax(1)
        best[np.isin(best, replaced)] = chosen
        return np.asarray(drawn[np.arange(len(best)), best] - scores[best])

    return max(0.0, float(bootstrap(np.concatenate(columns, axis=1), difference, resamples).mean()))
