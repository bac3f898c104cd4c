"""The difference between two systems that is significant on the present rows, and the rows that a difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epigram.evaluation.comparison.significance import differing_rows, mcnemar, standard_error
from epigram.evaluation.metrics.row_scores import ScoredRows


@dataclass(frozen=True)
class Sensitivity:
    """About the smallest significant difference in score, and about how many rows the present difference needs.

    `difference` is None if no difference can be significant, `rows` if the first system does not score higher.
    """

    difference: float | None
    rows: int | None


def sensitivity(a: ScoredRows, b: ScoredRows, rows: int, alpha: float) -> Sensitivity:
    """Return the sensitivity of the comparison of system a with system b on `rows` rows, by the test of `p_value`.

    Other rows are assumed to differ as often as the present ones.
    """
    from scipy.special import ndtri

    z, counts = float(ndtri(1 - alpha / 2)), differing_rows(a, b)
    present = float(a.scores().mean() - b.scores().mean())
    if counts is not None:
        difference = smallest_difference(sum(counts), rows, alpha)
        needed = rows_needed(*counts, rows, z) if counts[0] > counts[1] else None
        return Sensitivity(None if difference is None else difference / rows, needed)
    error = z * standard_error(a, b)
    return Sensitivity(error or None, math.ceil(rows * (error / present) ** 2) if present > 0 else None)


def smallest_difference(differing: int, rows: int, alpha: float) -> int | None:
    """Return the smallest significant difference, in rows, if `differing` rows are right for only one system.

    McNemar's test needs a certain number of such rows, which replaces a lower `differing`; None if it exceeds `rows`.
    """
    differing = max(differing, math.floor(1 - math.log2(alpha)) + 1)  # 2 · 0.5ⁿ < alpha
    if differing > rows:
        return None
    fewer = max(c for c in range(differing // 2 + 1) if mcnemar(differing - c, c) < alpha)
    return differing - 2 * fewer


def rows_needed(only_a: int, only_b: int, rows: int, z: float) -> int:
    """Return how many rows make the present difference significant, by McNemar's test with continuity correction.

    Solves (f·d − 1)² = z²·f·s for the factor f of `rows`, with d = only_a − only_b > 0 and s = only_a + only_b.
    """
    d, s = only_a - only_b, only_a + only_b
    root = (z * math.sqrt(s) + math.sqrt(z * z * s + 4 * d)) / (2 * d)
    return math.ceil(rows * root * root)
