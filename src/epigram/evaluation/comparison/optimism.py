"""Expected optimism of the best development score of several systems (Efron, 1983: the bootstrap's estimate).

The best of many scores on the same rows is high partly by chance. Rows are resampled; the system that is best on a
resample scores higher there than on all rows, and the mean of this difference estimates by how much the best
development score exceeds the score on new rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.metrics.intervals import resampled_scores
from epigram.evaluation.metrics.row_scores import ScoredRows

RESAMPLES = 1_000


def expected_optimism(
    systems: Sequence[ScoredRows], chosen: int = 0, replaced: Sequence[int] = (), resamples: int = RESAMPLES
) -> float:
    """Return the optimism in units of the score; 0 for one system. Every system has scores of the same N rows.

    Where one of the places `replaced` is the best of a resample, the system at the place `chosen` is chosen.
    """
    if len(systems) == 1:
        return 0.0
    scores = np.array([each.scores().mean() for each in systems])

    def difference(seeds: list[Floats]) -> Floats:
        """Return the optimism of each resample, (r,), from the scores of every system, (r, K)."""
        drawn = np.stack([each.mean(1) for each in seeds], axis=1)
        best = drawn.argmax(1)
        best[np.isin(best, replaced)] = chosen
        return np.asarray(drawn[np.arange(len(best)), best] - scores[best])

    return max(0.0, float(resampled_scores(systems, difference, resamples).mean()))
