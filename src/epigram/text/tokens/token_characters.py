"""Tokens as sequences of characters, so that words outside the vocabulary also get a representation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from epigram.core.arrays import Ragged, ranges
from epigram.text.tokens.alignment import PositionedTokens
from epigram.text.tokens.characters import CODE_POINTS, by_frequency, characters_of, code_points, count_characters

if TYPE_CHECKING:
    from epigram.text.dataset.validated_corpus import (
        ValidatedCorpus,  # imports polars, which prediction with a saved model does not need
    )

UNKNOWN, FIRST = 1, 2  # character ids; 0 is padding
MAX_CHARACTERS = 20  # maximum number of characters per token


def alphabet(corpus: ValidatedCorpus, min_count: int) -> str:
    """Return the non-whitespace characters that occur `min_count` times in the training texts, most frequent first."""
    counts = count_characters(corpus.texts("train"))
    return "".join(character for character in by_frequency(counts, min_count) if not character.isspace())


class CharacterEncoder:
    """Encoder of tokens as character ids; character k (from 0) of `characters` has the id k + 2."""

    def __init__(self, characters: str) -> None:
        self._table = np.full(CODE_POINTS, UNKNOWN, dtype=np.int32)
        codes = code_points([characters])
        self._table[codes] = np.arange(FIRST, FIRST + len(codes))

    def encode(self, texts: Sequence[str], tokens: PositionedTokens) -> Ragged[np.int32]:
        """Return the character ids of each of the `tokens` as written in `texts`, at most 20 per token."""
        characters = characters_of(texts)
        first, end = tokens.spans.T
        start = tokens.ids.spread(characters.starts)  # (T,): start of the token's text
        positions = ranges(start + first, np.minimum(end - first, MAX_CHARACTERS))
        return positions.with_values(self._table[characters.values[positions.values]])
