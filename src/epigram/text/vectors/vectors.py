"""Pretrained vectors for the entries of a vocabulary, read from a file of the user, and their coverage of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError, ParameterError
from epigram.text.local_files import local_file
from epigram.text.vectors.vector_files import SUFFIXES, open_vectors

Vectors = NDArray[np.float32]


def vectors_file(path: str, view: str) -> Path:
    """Return the path of the file that `views.VIEW.vectors` names. Raises ParameterError or InputMissingError."""
    setting = f"views.{view}.vectors"
    if Path(path).suffix not in SUFFIXES:
        raise ParameterError(f"params.yaml: {setting} is {path!r}; expected a file that ends in {', '.join(SUFFIXES)}")
    return local_file(path, setting)


def read_vectors(path: Path, vocabulary: Sequence[str]) -> Vectors:
    """Return the vectors of `vocabulary` from `path`, (V, E) float32; entries without a vector get rows of NaN.

    An entry gets the vector of the identical word, else of the first word that differs only in case.
    Raises DataError for a damaged file (see `open_vectors`) and if no entry has a vector.
    """
    width, rows = open_vectors(path)
    matcher, vectors = _VocabularyMatcher(vocabulary), np.full((len(vocabulary), width), np.nan, dtype=np.float32)
    for word, values in rows:
        if indices := matcher.match(word):
            vector = vectors[indices] = values()
            if not np.isfinite(vector).all():
                raise DataError(f"{path}: the vector of {word!r} contains NaN or infinite numbers")
    if not matcher.matched:
        raise DataError(
            f"{path} has no vector for any of the {len(vocabulary):,} entries of the vocabulary, such as "
            f"{', '.join(map(repr, vocabulary[-3:]))}: its words must be tokens of the view, in UTF-8"
        )
    return vectors


def coverage(vectors: Vectors, ids: NDArray[np.integer]) -> dict[str, int | float]:
    """Return how many vocabulary entries have a vector, and the share of the tokens `ids` (T,) that have one."""
    known = ~np.isnan(vectors).any(1)
    counts = np.bincount(ids, minlength=len(vectors))
    return {
        "width": vectors.shape[1],
        "found": int(known.sum()),
        "of": len(vectors),
        "tokens": float(counts[known].sum() / max(1, counts.sum())),
    }


class _VocabularyMatcher:
    """Vocabulary entries that still need a vector."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._exact = {entry: index for index, entry in enumerate(vocabulary)}
        self._lowercase: dict[str, list[int]] = {}
        for entry, index in self._exact.items():
            self._lowercase.setdefault(entry.lower(), []).append(index)
        self.matched: dict[int, bool] = {}  # entry id → whether the match is exact

    def match(self, word: str) -> list[int]:
        """Return the entry ids that take the vector of `word`; an exact match replaces an earlier inexact one."""
        exact = self._exact.get(word)
        candidates = self._lowercase.get(word.lower(), ())
        indices = [
            index
            for index in candidates
            if not self.matched.get(index, False) and (index == exact or index not in self.matched)
        ]
        self.matched.update((index, index == exact) for index in indices)
        return indices
