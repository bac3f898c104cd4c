"""Encoding of texts as flat arrays of token ids, used by the encode stage and by inference."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from epigram.core.arrays import Ragged, lengths_of
from epigram.core.config_types import shown
from epigram.core.errors import DataError, is_out_of_memory, is_panic
from epigram.core.pairs import PAIR
from epigram.text.tokens.alignment import (
    PositionedTokens,
    Sides,
    UntruncatedTokens,
    align_characters,
    align_sides,
    align_tokens,
    join_and_truncate,
)
from epigram.text.tokens.characters import characters_of, lookup_table
from epigram.text.tokens.tokenizers import is_character_tokenizer, special_ids, vocabulary_of

CHUNK_CHARACTERS = 1_000_000  # limits the memory of the tokenizer library's results


class EncodedTexts(NamedTuple):
    """Token ids of N texts."""

    ids: Ragged[np.int32]
    truncated: int  # number of truncated texts


class TextEncoder:
    """Encoder of texts with one tokenizer, which is prepared once; with `join` PAIR, texts have two sides."""

    def __init__(self, tokenizer: Tokenizer, join: str = " ") -> None:
        self._tokenizer = tokenizer
        self._between = separator_ids(tokenizer) if join == PAIR else None
        self.unk_id = special_ids(tokenizer).unk
        self._table: NDArray[np.int32] | None = None
        if is_character_tokenizer(tokenizer):
            self._table = lookup_table(vocabulary_of(tokenizer), self.unk_id)

    def encode(self, texts: Sequence[str], max_length: int) -> EncodedTexts:
        """Return the first `max_length` tokens of each text, without prompt and special tokens.

        A text without any token becomes one unknown token, so that no model gets an empty row.
        Raises DataError for a text that is not valid Unicode (a lone surrogate), and if the tokenizer fails on a text.
        """
        with _report_failures():
            parts = [self._encode_pairs(texts[start:stop], max_length) for start, stop in _chunks(texts)]
        ids = Ragged.concatenate([part.ids for part in parts]).fill_empty(self.unk_id)
        return EncodedTexts(ids, sum(part.truncated for part in parts))

    def encode_with_positions(self, texts: Sequence[str], max_length: int) -> PositionedTokens:
        """Return the tokens of `encode` with their words and their positions in the text; slower than `encode`."""
        with _report_failures():
            parts = [self._align_pairs(texts[start:stop]) for start, stop in _chunks(texts)]
        return join_and_truncate(parts, max_length, self.unk_id)

    def _align_pairs(self, texts: Sequence[str]) -> UntruncatedTokens:
        if self._between is None:
            return self._align(texts)
        sides = Sides.of(texts)
        return align_sides(self._align(sides.texts), sides, self._between)

    def _encode_pairs(self, texts: Sequence[str], max_length: int) -> EncodedTexts:
        if self._between is None:
            return self._encode(texts, max_length)
        sides = Sides.of(texts)
        ids = sides.join(self._encode(sides.texts, sys.maxsize).ids, np.array(self._between, np.int32))
        return EncodedTexts(ids.truncate(max_length), int((ids.lengths > max_length).sum()))

    def _align(self, texts: Sequence[str]) -> UntruncatedTokens:
        if self._table is not None:
            return align_characters(self._table, texts)
        "".join(texts).encode()  # as in `_encode`
        return align_tokens(self._tokenizer, texts)

    def _encode(self, texts: Sequence[str], max_length: int) -> EncodedTexts:
        """Return the tokens of `encode` where a text without any token has none."""
        if self._table is not None:
            heads = [text[:max_length] for text in texts]
            characters = characters_of(heads)
            ids = characters.with_values(self._table[characters.values])
            return EncodedTexts(ids, int((ids.lengths < lengths_of(texts)).sum()))
        "".join(texts).encode()  # raises a clearer error for invalid Unicode than the library does
        full = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        ids = Ragged.from_lists([text_ids[:max_length] for text_ids in full], np.int32)
        return EncodedTexts(ids, int((ids.lengths < lengths_of(full)).sum()))


def separator_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids between two sides: as many separators as the tokenizer's own template for pairs has, at least one.

    A tokenizer without a separator has none.
    """
    separator = special_ids(tokenizer).sep
    added = tokenizer.num_special_tokens_to_add(True) - tokenizer.num_special_tokens_to_add(False)
    return [] if separator is None else [separator] * max(1, added)


@contextmanager
def _report_failures() -> Iterator[None]:
    """Raise DataError for a text that is not valid Unicode, and if the tokenizer fails on a text."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise DataError(f"a text is not valid Unicode: {error.reason} at character {error.start}") from None
    except BaseException as error:
        if is_out_of_memory(error) or not (type(error) is Exception or is_panic(error)):  # the library's types
            raise
        reason = shown(str(error).partition("\n")[0])
        raise DataError(f"the tokenizer failed on a text ({reason}): its tokenizer.json is damaged") from None


def _chunks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts with about CHUNK_CHARACTERS characters each."""
    chunk = np.cumsum(lengths_of(texts)) // CHUNK_CHARACTERS
    cuts = np.flatnonzero(np.diff(chunk)) + 1
    return pairwise([0, *cuts.tolist(), len(texts)])
