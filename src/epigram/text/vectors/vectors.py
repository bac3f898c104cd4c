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
    vectors = np.full((len(vocabulary), width), np.nan, dtype=np.float32)
    exact = {entry: index for index, entry in enumerate(vocabulary)}
    by_lowercase: dict[str, list[int]] = {}
    for entry, index in exact.items():
        by_lowercase.setdefault(entry.lower(), []).append(index)
    matched: dict[int, bool] = {}  # entry id → whether the match is exact
    for word, values in rows:
        own = exact.get(word)  # an exact match replaces an earlier inexact one
        candidates = by_lowercase.get(word.lower(), ())
        if indices := [i for i in candidates if i not in matched or (i == own and not matched[i])]:
            matched.update((index, index == own) for index in indices)
            vector = vectors[indices] = values()
            if not np.isfinite(vector).all():
                raise DataError(f"{path}: the vector of {word!r} contains NaN or infinite numbers")
    if not matched:
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
