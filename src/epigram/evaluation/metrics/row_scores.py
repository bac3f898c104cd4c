"""What each row of a split adds to a score: from the sums over any rows, the score of these rows follows.

So a bootstrap draws sums instead of rows. Equal rows are drawn together, so that a resample of rows with few labels is
a few numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.metrics.counts import LabelCounts, label_counts, multi_label_counts

MANY_LABELS = 20  # if there are more, most pairs of gold and predicted label are rare
SHARE = (0.0, 1.0)
LOSS = (-np.inf, 0.0)  # bounds of a score that is the negative of a loss


class ScoredRows(ABC):
    """What each of N rows adds to a score, for K seeds.

    `bounds` are the lowest and the highest possible score. `spread` widens the interval of the score, see
    `fold_spread`.
    """

    bounds: tuple[float, float] = SHARE
    spread: float = 1.0
    most_resamples: ClassVar[int | None] = None  # limit, if one takes long

    @property
    @abstractmethod
    def codes(self) -> Sequence[NDArray[Any]]:
        """Numbers of the rows, (N,) each; rows with the same numbers add the same, and so do not differ."""

    @property
    def mostly_rare(self) -> bool:
        """Whether most of the distinct rows occur only a few times."""
        return False

    @abstractmethod
    def columns(self, rows: Ints) -> Any:
        """Return what the chosen rows (n,) add, (n, F), as an array or a sparse matrix."""

    @abstractmethod
    def of(self, sums: Floats) -> Floats:
        """Return the scores (r, K) from sums of the columns over rows, (r, F)."""

    @abstractmethod
    def scores(self) -> Floats:
        """Return the score of every seed, (K,)."""

    @abstractmethod
    def rows(self, chosen: Bools) -> Self:
        """Return only the rows where `chosen` (N,) is true."""


@dataclass(frozen=True)
class RowScores(ScoredRows):
    """What each row gains and could gain, both (K, N): the score of a seed is Σ gained / Σ possible.

    Accuracy: a correct row gains 1 of 1. Micro-F1: a row gains 2·TP of 2·TP + FP + FN. A loss is a negative gain of 1.
    """

    gained: NDArray[Any]
    possible: NDArray[Any]
    spread: float = 1.0
    bounds: tuple[float, float] = SHARE

    @property
    def codes(self) -> Sequence[NDArray[Any]]:
        """What each row gains and could gain."""
        return [*self.gained, *self.possible]

    @property
    def mostly_rare(self) -> bool:
        """Whether most of the distinct rows occur only a few times: losses differ from row to row."""
        return self.bounds == LOSS

    @property
    def right_or_wrong(self) -> bool:
        """Whether each row gains 0 or 1 of 1."""
        return bool((self.possible == 1).all() and np.isin(self.gained, (0, 1)).all())

    def columns(self, rows: Ints) -> NDArray[Any]:
        """Return columns (n, 2K): what the rows gain, then what they could gain."""
        return np.concatenate([self.gained[:, rows], self.possible[:, rows]]).T.astype(float)

    def of(self, sums: Floats) -> Floats:
        """Return the scores (r, K) from sums (r, 2K)."""
        gained, possible = np.split(sums, 2, axis=1)
        return ratio(gained, possible)

    def scores(self) -> Floats:
        """Return the score of every seed, (K,)."""
        return ratio(self.gained.sum(1), self.possible.sum(1))

    def rows(self, chosen: Bools) -> Self:
        """Return only the rows where `chosen` (N,) is true."""
        return replace(self, gained=self.gained[:, chosen], possible=self.possible[:, chosen])


@dataclass(frozen=True)
class LabelScores(ScoredRows):
    """Gold and predicted labels of which `statistic` is a function of the counts of every label.

    They are class numbers (N,) and (K, N), or indicators (N, C) and (K, N, C) if a row may have several of C labels.
    """

    gold: NDArray[Any]
    predicted: NDArray[Any]
    classes: int
    statistic: Callable[[LabelCounts], Floats]
    spread: float = 1.0

    @property
    def multi(self) -> bool:
        """Whether a row may have several labels."""
        return self.gold.ndim == 2

    @property
    def codes(self) -> Sequence[NDArray[Any]]:
        """The labels."""
        return label_codes(self.gold, self.predicted)

    @property
    def mostly_rare(self) -> bool:
        """Whether most of the distinct rows occur only a few times."""
        return not self.multi and self.classes > MANY_LABELS

    def columns(self, rows: Ints) -> Any:
        """Return indicators of gold labels, predicted labels and hits, (n, C + 2KC).

        With one label per row, a row has at most 1 + 2K ones: the matrix is sparse, and its size does not grow with the
        number of classes.
        """
        gold, predicted = self.gold[rows], self.predicted[:, rows]
        if not self.multi:
            return _sparse_indicators(gold, predicted, self.classes)
        said, hits = (each.transpose(1, 0, 2).reshape(len(rows), -1) for each in (predicted, predicted & gold))
        return np.concatenate([gold, said, hits], axis=1).astype(float)

    def of(self, sums: Floats) -> Floats:
        """Return the statistic (r, K) from sums (r, C + 2KC)."""
        support, rest = sums[:, None, : self.classes], sums[:, self.classes :]
        rest = rest.reshape(len(sums), 2, len(self.predicted), self.classes)
        predicted, hits = rest[:, 0], rest[:, 1]
        unknown = np.full(hits.shape[:-1], np.nan)  # sums over rows do not tell which rows are all right
        found = LabelCounts(hits, predicted, support, unknown, len(self.gold), self.multi)
        return self.statistic(found)

    def scores(self) -> Floats:
        """Return the statistic of every seed, (K,)."""
        if self.multi:
            return self.statistic(multi_label_counts(self.gold, self.predicted))
        return self.statistic(label_counts(self.gold, self.predicted, self.classes))

    def rows(self, chosen: Bools) -> Self:
        """Return only the rows where `chosen` (N,) is true."""
        return replace(self, gold=self.gold[chosen], predicted=self.predicted[:, chosen])


def label_codes(gold: NDArray[Any], predicted: NDArray[Any]) -> Sequence[NDArray[Any]]:
    """Return the codes of labels, see `ScoredRows`; numbers are negative, so that indicators have the same order."""
    if gold.ndim == 2:
        return list(np.concatenate([gold[None], predicted]).transpose(0, 2, 1).reshape(-1, len(gold)))
    return [-gold, *-predicted]


def _sparse_indicators(gold: Ints, predicted: Ints, classes: int) -> Any:
    """Return the indicators of labels (n,) and predictions (K, n), and of the hits, as a sparse matrix."""
    from scipy.sparse import csr_matrix

    seeds, own, said = len(predicted), gold[:, None], predicted.T
    start = classes * (1 + np.arange(seeds))
    columns = np.concatenate([own, start + said, start + classes * seeds + said], axis=1)
    hit = said == own
    present = np.concatenate([np.ones_like(own, np.bool_), np.ones_like(hit), hit], axis=1)
    rows = np.broadcast_to(np.arange(len(gold))[:, None], columns.shape)
    shape = (len(gold), classes * (1 + 2 * seeds))
    return csr_matrix((np.ones(present.sum()), (rows[present], columns[present])), shape=shape)


@dataclass(frozen=True)
class KappaScores(ScoredRows):
    """Ordered gold labels (N,) and predictions (K, N), as class numbers: the quadratically weighted kappa.

    κ = 1 − Σ (g − p)² / Σ E (g − p)², where E is the mean over all pairs of a gold and a predicted label (Cohen, 1968).
    """

    gold: Ints
    predicted: Ints
    spread: float = 1.0
    bounds: tuple[float, float] = (-1.0, 1.0)

    @property
    def codes(self) -> Sequence[NDArray[Any]]:
        """The labels."""
        return [self.gold, *self.predicted]

    def columns(self, rows: Ints) -> NDArray[Any]:
        """Return columns (n, 6K): squared difference, squares of both, both, and 1."""
        p = self.predicted[:, rows].astype(float)
        g = np.broadcast_to(self.gold[rows], p.shape).astype(float)
        return np.concatenate([(g - p) ** 2, g**2, p**2, g, p, np.ones_like(p)]).T

    def of(self, sums: Floats) -> Floats:
        """Return kappa (r, K) from sums (r, 6K); without any difference, it is 1."""
        apart, gold_squares, squares, gold, predicted, count = np.split(sums, 6, axis=1)
        return 1.0 - ratio(apart, gold_squares + squares - 2.0 * ratio(gold * predicted, count))

    def scores(self) -> Floats:
        """Return kappa of every seed, (K,)."""
        return np.asarray(self.of(self.columns(np.arange(len(self.gold))).sum(0, keepdims=True))[0])

    def rows(self, chosen: Bools) -> Self:
        """Return only the rows where `chosen` (N,) is true."""
        return replace(self, gold=self.gold[chosen], predicted=self.predicted[:, chosen])
