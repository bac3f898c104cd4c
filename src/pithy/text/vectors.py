"""Pretrained vectors of a vocabulary's entries, from a file of the user's, and how much of the text they cover."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pithy.errors import DataError, ParameterError
from pithy.text.local import local_file
from pithy.text.vector_files import KINDS, open_vectors

Vectors = NDArray[np.float32]


def vectors_file(path: str, view: str) -> Path:
    """The file that `views.VIEW.vectors` names. Raises ParameterError or InputMissingError."""
    setting = f"views.{view}.vectors"
    if Path(path).suffix not in KINDS:
        raise ParameterError(f"params.yaml: {setting} was {path!r}: a file that ends in {', '.join(KINDS)} is needed")
    return local_file(path, setting)


def read_vectors(path: Path, vocabulary: Sequence[str]) -> Vectors:
    """The vectors of the `vocabulary` in `path`, (V, E) float32, rows of NaN for entries that have none.

    An entry takes the vector of the very same word, otherwise of the first word that differs in case only. Raises
    DataError for a broken file (see `open_vectors`) and where no entry has a vector.
    """
    width, rows = open_vectors(path)
    wanted, found = _Wanted(vocabulary), np.full((len(vocabulary), width), np.nan, dtype=np.float32)
    for word, values in rows:
        if places := wanted.take(word):
            vector = found[places] = values()
            if not np.isfinite(vector).all():
                raise DataError(f"{path}: the vector of {word!r} holds numbers that are not finite")
    if not wanted.taken:
        raise DataError(
            f"{path} has a vector for none of the {len(vocabulary):,} entries of the vocabulary, such as "
            f"{', '.join(map(repr, vocabulary[-3:]))}: it must hold the view's own tokens, in UTF-8"
        )
    return found


def coverage(vectors: Vectors, ids: NDArray[np.integer]) -> dict[str, int | float]:
    """How many entries have a vector, and the share of the tokens `ids` (T,) that have one."""
    known = ~np.isnan(vectors).any(1)
    counts = np.bincount(ids, minlength=len(vectors))
    return {
        "width": vectors.shape[1],
        "found": int(known.sum()),
        "of": len(vectors),
        "tokens": float(counts[known].sum() / max(1, counts.sum())),
    }


class _Wanted:
    """Which entries of a vocabulary still want the vector of a word."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._exact = {entry: place for place, entry in enumerate(vocabulary)}
        self._folded: dict[str, list[int]] = {}
        for entry, place in self._exact.items():
            self._folded.setdefault(entry.lower(), []).append(place)
        self.taken: dict[int, bool] = {}  # place → whether its word is the very same

    def take(self, word: str) -> list[int]:
        """Places that take the vector of `word`; one is named again where a later word fits better."""
        same = self._exact.get(word)
        near = self._folded.get(word.lower(), ())
        found = [
            place for place in near if not self.taken.get(place, False) and (place == same or place not in self.taken)
        ]
        self.taken.update((place, place == same) for place in found)
        return found
