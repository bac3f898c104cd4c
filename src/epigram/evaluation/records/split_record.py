"""What an evaluation keeps of one split: the predictions of every seed, and the gold labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints

WORDS = "word_"  # prefix of the names of the arrays of words


@dataclass(frozen=True, kw_only=True)
class WordRecord:
    """Label numbers of the words of N texts; 0 is the default label.

    Text n has the words from `offsets[n]` to `offsets[n + 1]`. `predictions` is None if the system labels no words.
    """

    labels: Ints  # (T,)
    offsets: NDArray[np.int64]  # (N + 1,)
    predictions: Ints | None = None  # (K, T)


@dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """Probabilities of every seed and the gold labels of one split.

    `words` is None if the corpus labels no words. `folds` are the rows' folds if a cross-validation of train replaces
    the split.
    """

    probabilities: Floats  # (K, N, C)
    labels: Ints  # (N,) class numbers or (N, C) indicators
    rows: Ints  # (N,)
    words: WordRecord | None = None
    folds: Ints | None = None  # (N,)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        named = {name: array for name, array in vars(self).items() if name != "words"}
        if self.words is not None:
            named |= {f"{WORDS}{name}": array for name, array in vars(self.words).items()}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> SplitRecord:
        """Return the record with `arrays`, which have names of ARRAYS."""
        own = {name: array for name, array in arrays.items() if not name.startswith(WORDS)}
        words = {name.removeprefix(WORDS): array for name, array in arrays.items() if name.startswith(WORDS)}
        return cls(**own, words=WordRecord(**words) if words else None)


ARRAYS = {each.name for each in fields(SplitRecord)} - {"words"} | {
    f"{WORDS}{each.name}" for each in fields(WordRecord)
}
