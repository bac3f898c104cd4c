"""Tokens as the characters that they are written with, so that a word outside the vocabulary is still spelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pithy.text.arrays import within
from pithy.text.characters import CODE_POINTS, by_frequency, code_points, count_characters
from pithy.text.words import Located, lengths

if TYPE_CHECKING:
    from pithy.text.rows import Corpus  # and polars, which a saved model's answers do without

UNKNOWN, FIRST = 1, 2  # ids of a character; 0 stands for none
LONGEST = 20  # characters kept of a token


class Spelling(NamedTuple):
    """Token t is written `characters[offsets[t] : offsets[t + 1]]`."""

    characters: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (T + 1,)


def alphabet(corpus: Corpus, min_count: int) -> str:
    """The characters of the training texts seen `min_count` times, most frequent first, without white space."""
    counts = count_characters(corpus.texts("train"))
    return "".join(character for character in by_frequency(counts, min_count) if not character.isspace())


class Speller:
    """Spells tokens by `characters`, the k-th of which has the id k + 2."""

    def __init__(self, characters: str) -> None:
        self._table = np.full(CODE_POINTS, UNKNOWN, dtype=np.int32)
        codes = code_points([characters])
        self._table[codes] = np.arange(FIRST, FIRST + len(codes))

    def spell(self, texts: Sequence[str], tokens: Located) -> Spelling:
        """The characters of the `tokens` of `texts` as they stand there, at most 20 of each."""
        sizes = lengths(texts)
        begin = np.repeat(np.cumsum(sizes) - sizes, np.diff(tokens.offsets))  # (T,) where the token's text starts
        counts = np.minimum(tokens.spans[:, 1] - tokens.spans[:, 0], LONGEST)
        places = np.repeat(begin + tokens.spans[:, 0], counts) + within(counts)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return Spelling(self._table[code_points(texts)[places]], offsets)
