"""Probabilities of the labels of texts that have one label each: those of all labels, or of the most probable ones.

Of more than TOP labels, only the TOP most probable ones of each text are kept, and the sum of the others. Where one of
the others is needed, each of them has the same share of this sum. Predicted labels and their probabilities are exact,
and with them accuracy, F1, confusion, calibration error and coverage. The Brier score, another temperature and a mean
over models follow the rule. T labels are kept of each text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats, Ints

TOP = 20  # labels of a text whose probabilities are kept
CHUNK = 4_000_000  # probabilities that a step over all labels has in memory at once: 32 MB
EPSILON = 1e-12  # smallest probability and smallest distance from 1 of which a logit is computed


@dataclass(frozen=True)
class LabelProbabilities:
    """Probabilities of `labels` (K, N, T), of C = `classes` labels; the other C − T labels sum to `rest` (K, N)."""

    labels: Ints
    values: Floats  # (K, N, T)
    rest: Floats
    classes: int

    @classmethod
    def of(cls, probabilities: Floats | LabelProbabilities) -> LabelProbabilities:
        """Return the probabilities (K, N, C): all of at most TOP labels, otherwise the TOP most probable ones."""
        if isinstance(probabilities, LabelProbabilities):
            return probabilities
        seeds, rows, classes = probabilities.shape
        if classes > TOP:
            parts = [_most_probable(probabilities[:, chunk]) for chunk in _chunks(rows, seeds * classes)]
            return cls.concatenate(parts, axis=1)
        labels = np.broadcast_to(np.arange(classes), probabilities.shape)
        return cls(labels, probabilities, np.zeros((seeds, rows), probabilities.dtype), classes)

    @classmethod
    def concatenate(cls, parts: Sequence[LabelProbabilities], axis: int) -> LabelProbabilities:
        """Join probabilities of different seeds (`axis` 0) or rows (`axis` 1)."""
        names = ("labels", "values", "rest")
        labels, values, rest = (np.concatenate([getattr(part, name) for part in parts], axis) for name in names)
        return cls(labels, values, rest, parts[0].classes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of seeds, rows and labels (K, N, C)."""
        return (*self.rest.shape, self.classes)

    @cached_property
    def predicted(self) -> Ints:
        """Most probable label (K, N); of equal ones, the first."""
        return self._at(self.labels, self.values.argmax(-1)).astype(np.int64)

    @cached_property
    def confidence(self) -> Floats:
        """Probability of the most probable label (K, N)."""
        return np.asarray(self.values.max(-1))

    def of_label(self, labels: Ints) -> Floats:
        """Return the probability (K, N) of one label of each row, `labels` (N,)."""
        kept = self.labels == labels[:, None]
        return np.where(kept.any(-1), self._at(self.values, kept.argmax(-1)), self._share)

    def squared_error(self, gold: Ints) -> Floats:
        """Return the squared error (K, N) of the probabilities, summed over all labels, for the labels `gold` (N,)."""
        kept = self.labels == gold[:, None]
        others = (self.classes - self.values.shape[-1]) * self._share**2
        missed = np.where(kept.any(-1), 0, 1 - 2 * self._share)  # (1 − share)² in place of share²
        return np.asarray(((self.values - kept) ** 2).sum(-1) + others + missed)

    def rows(self, chosen: slice | Ints | Bools) -> LabelProbabilities:
        """Return only the rows `chosen`."""
        return LabelProbabilities(self.labels[:, chosen], self.values[:, chosen], self.rest[:, chosen], self.classes)

    def seed(self, number: int) -> LabelProbabilities:
        """Return only the seed at place `number` (K = 1)."""
        part = slice(number, number + 1)
        return LabelProbabilities(self.labels[part], self.values[part], self.rest[part], self.classes)

    def dense(self) -> Floats:
        """Return the probabilities of all labels (K, N, C)."""
        out = np.repeat(self._share[..., None], self.classes, axis=-1)
        np.put_along_axis(out, self.labels.astype(np.int64), self.values, axis=-1)
        return out

    def combined(self, combine: Callable[[Floats], Floats]) -> LabelProbabilities:
        """Return the probabilities (1, N, C) that `combine` makes of those of all labels: (K, n, C) → (n, C)."""
        seeds, rows, classes = self.shape
        chunks = _chunks(rows, seeds * classes)
        return self.concatenate([self.of(combine(self.rows(chunk).dense())[None]) for chunk in chunks], axis=1)

    def at_temperature(self, temperature: float) -> LabelProbabilities:
        """Return the probabilities after dividing their logits by the temperature (Guo et al., 2017, Eq. 9)."""
        seeds, rows, kept = self.values.shape
        parts = [self.rows(chunk)._at_temperature(temperature) for chunk in _chunks(rows, seeds * kept)]
        return self.concatenate(parts, axis=1)

    def _at_temperature(self, temperature: float) -> LabelProbabilities:
        logits, other = (
            np.log(np.clip(each.astype(float), EPSILON, 1.0 - EPSILON)) / temperature
            for each in (self.values, self._share)
        )
        highest = logits.max(-1)
        powers = np.exp(logits - highest[..., None])
        rest = np.exp(other - highest) * (self.classes - self.values.shape[-1])
        total = powers.sum(-1) + rest
        return LabelProbabilities(self.labels, powers / total[..., None], rest / total, self.classes)

    @property
    def _share(self) -> Floats:
        """Probability (K, N) of a label that is not kept."""
        return np.asarray(self.rest / max(1, self.classes - self.values.shape[-1]))

    @staticmethod
    def _at(values: NDArray[Any], places: Ints) -> NDArray[Any]:
        """Return one of the T values of each row, (K, N)."""
        return np.take_along_axis(values, places[..., None], axis=-1)[..., 0]


Probabilities = Floats | LabelProbabilities  # (K, N, C); an array if a text may have several labels


def chosen(probabilities: Probabilities, rows: Ints | Bools) -> Probabilities:
    """Return only some rows, by number or by flag."""
    return probabilities.rows(rows) if isinstance(probabilities, LabelProbabilities) else probabilities[:, rows]


def of_seed(probabilities: Probabilities, number: int) -> Probabilities:
    """Return only the seed at place `number` (K = 1)."""
    if isinstance(probabilities, LabelProbabilities):
        return probabilities.seed(number)
    return probabilities[number : number + 1]


def join(parts: Sequence[Probabilities], axis: int) -> Probabilities:
    """Join probabilities of different seeds (`axis` 0) or rows (`axis` 1), all of the same kind."""
    known = [part for part in parts if isinstance(part, LabelProbabilities)]
    return LabelProbabilities.concatenate(known, axis) if known else np.concatenate([*parts], axis)


def _chunks(rows: int, width: int) -> Iterator[slice]:
    """Yield the parts of `rows` rows, at least one, that have at most CHUNK numbers; a row has `width`."""
    step = max(1, CHUNK // width)
    yield from (slice(start, start + step) for start in range(0, max(1, rows), step))


def _most_probable(probabilities: Floats) -> LabelProbabilities:
    """Return the TOP most probable labels of (K, N, C), most probable first; of equal ones, the first labels."""
    classes = probabilities.shape[-1]
    negative = -probabilities
    places = np.argpartition(negative, TOP - 1, axis=-1)[..., :TOP]
    least = np.take_along_axis(negative, places, axis=-1).max(-1)
    tied = np.count_nonzero(negative <= least[..., None], axis=-1) > TOP  # the partition takes any of the equal ones
    places[tied] = np.argsort(negative[tied], axis=-1, kind="stable")[..., :TOP]
    places.sort(axis=-1)
    kept = np.take_along_axis(probabilities, places, axis=-1)
    order = np.argsort(-kept, axis=-1, kind="stable")
    np.put_along_axis(negative, places, 0, axis=-1)
    return LabelProbabilities(
        np.take_along_axis(places, order, axis=-1).astype(np.min_scalar_type(classes - 1)),
        np.take_along_axis(kept, order, axis=-1),
        -negative.sum(-1),
        classes,
    )
