"""Tokens as sequences of characters, so that words outside the vocabulary also get a representation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import positions_in_groups
from epigram.text.alignment import PositionedTokens, lengths
from epigram.text.characters import CODE_POINTS, by_frequency, code_points, count_characters

if TYPE_CHECKING:
    from epigram.text.validated_corpus import (
        Corpus,  # imports polars, which prediction with a saved model does not need
    )

UNKNOWN, FIRST = 1, 2  # character ids; 0 is padding
MAX_CHARACTERS = 20  # maximum number of characters per token


class TokenCharacters(NamedTuple):
    """Characters of T tokens: token t is `characters[offsets[t] : offsets[t + 1]]`."""

    characters: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (T + 1,)


def alphabet(corpus: Corpus, min_count: int) -> str:
    """Return the non-whitespace characters that occur `min_count` times in the training texts, most frequent first."""
    counts = count_characters(corpus.texts("train"))
    return "".join(character for character in by_frequency(counts, min_count) if not character.isspace())


class CharacterEncoder:
    """Encoder of tokens as character ids; character k (from 0) of `characters` has the id k + 2."""

    def __init__(self, characters: str) -> None:
        self._table = np.full(CODE_POINTS, UNKNOWN, dtype=np.int32)
        codes = code_points([characters])
        self._table[codes] = np.arange(FIRST, FIRST + len(codes))

    def encode(self, texts: Sequence[str], tokens: PositionedTokens) -> TokenCharacters:
        """Return the character ids of `tokens` as written in `texts`, at most 20 per token."""
        sizes = lengths(texts)
        start = np.repeat(np.cumsum(sizes) - sizes, np.diff(tokens.offsets))  # (T,): start of the token's text
        counts = np.minimum(tokens.spans[:, 1] - tokens.spans[:, 0], MAX_CHARACTERS)
        positions = np.repeat(start + tokens.spans[:, 0], counts) + positions_in_groups(counts)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return TokenCharacters(self._table[code_points(texts)[positions]], offsets)
