"""Tokens with their positions: the word and the character span of each token.

Shapes: N texts, T tokens in all texts together, concatenated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from epigram.core.arrays import Integers, Ragged, lengths_of
from epigram.core.pairs import PAIR
from epigram.text.tokens.characters import WHITESPACE_CODES, characters_of

NO_LABEL = -1


class PositionedTokens(NamedTuple):
    """Token ids of N texts with their positions, counted in characters of the text."""

    ids: Ragged[np.int32]
    truncated: int  # number of truncated texts
    words: NDArray[np.int32]  # (T,): word number of the token in its text
    spans: Integers  # (T, 2): start and end of the token


class UntruncatedTokens(NamedTuple):
    """All tokens of N texts before truncation, with the fields of `PositionedTokens`."""

    ids: Ragged[np.int32]
    words: Integers
    spans: Integers


def align_characters(table: NDArray[np.int32], texts: Sequence[str]) -> UntruncatedTokens:
    """Tokenize by characters: each character is a token and a word.

    Whitespace belongs to the preceding word, as in `align_tokens`.
    """
    characters = characters_of(texts)
    ids, position = characters.with_values(table[characters.values]), characters.positions()
    spans = _strip_spans(np.stack([position, position + 1], axis=1), texts, ids)
    return UntruncatedTokens(ids, _assign_whitespace(position, spans, ids), spans)


def align_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> UntruncatedTokens:
    """Tokenize with `tokenizer`; its pre-tokens are the words.

    Spans exclude leading and trailing whitespace, which some tokenizers count as part of a token. A token of whitespace
    only belongs to the preceding word and has an empty span at the end of that word.
    """
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = Ragged.from_lists([encoding.ids for encoding in encodings], np.int32)
    size = len(ids.values)
    numbers = _flatten((encoding.word_ids for encoding in encodings), np.int64, size)
    pairs = chain.from_iterable(encoding.offsets for encoding in encodings)
    spans = _strip_spans(_flatten(pairs, np.int64, 2 * size).reshape(size, 2), texts, ids)
    return UntruncatedTokens(ids, _assign_whitespace(numbers, spans, ids), spans)


class Sides(NamedTuple):
    """The sides of N texts, one after the other, and how many each text has (N,)."""

    texts: list[str]
    counts: Integers

    @classmethod
    def of(cls, texts: Sequence[str]) -> Sides:
        """Return the sides of `texts`, between which there is PAIR."""
        split = [text.split(PAIR) for text in texts]
        return cls(list(chain.from_iterable(split)), lengths_of(split))

    def before(self, sizes: Integers) -> Integers:
        """Return the sum of the `sizes` of the sides before each side of the same text."""
        total = np.cumsum(sizes) - sizes
        return np.asarray(total - np.repeat(total[np.cumsum(self.counts) - self.counts], self.counts))

    def join(self, tokens: Ragged[Any], between: NDArray[Any]) -> Ragged[Any]:
        """Return the values of the `tokens` of each side as texts, with K values `between` two sides: (K, …).

        `between` may also have values for each of M places, (M, K, …).
        """
        inner = np.delete(np.arange(len(tokens)), np.cumsum(self.counts) - 1)  # sides that another side follows
        size = between.shape[between.ndim - tokens.values.ndim]
        added = np.broadcast_to(between, (len(inner), size, *tokens.values.shape[1:]))
        places = np.repeat(tokens.offsets[1:][inner], size)
        values = np.insert(tokens.values, places, added.reshape(-1, *tokens.values.shape[1:]), axis=0)
        lengths = np.add.reduceat(tokens.lengths, np.cumsum(self.counts) - self.counts)
        return Ragged.from_lengths(values, lengths + size * (self.counts - 1))


def align_sides(tokens: UntruncatedTokens, sides: Sides, between: Sequence[int]) -> UntruncatedTokens:
    """Return the `tokens` of sides as tokens of texts, with the ids `between` two sides.

    Like a token of whitespace, a token between two sides belongs to the preceding word and has an empty span.
    """
    ids, lengths = tokens.ids, lengths_of(sides.texts)
    last = np.append(tokens.words, -1)[ids.offsets[1:] - 1]
    words = np.where(ids.lengths > 0, last + 1, 0)  # number of words of each side
    first_word, start = sides.before(words), sides.before(lengths + 1)
    inner = np.delete(np.arange(len(ids)), np.cumsum(sides.counts) - 1)
    word, end = np.maximum(first_word + words - 1, 0)[inner], (start + lengths)[inner]
    numbers = ids.with_values(tokens.words + ids.spread(first_word))
    spans = ids.with_values(tokens.spans + ids.spread(start)[:, None])
    size = len(between)
    return UntruncatedTokens(
        sides.join(ids, np.array(between, np.int32)),
        sides.join(numbers, np.repeat(word[:, None], size, axis=1)).values,
        sides.join(spans, np.tile(end[:, None, None], (1, size, 2))).values,
    )


def _assign_whitespace(numbers: Integers, spans: Integers, ids: Ragged[np.int32]) -> Integers:
    """Return the word numbers (T,); a whitespace token, which has an empty span, gets the preceding token's."""
    blank = (spans[:, 0] == spans[:, 1]) & (ids.positions() > 0)
    source = np.maximum.accumulate(np.where(blank, 0, np.arange(len(numbers))))  # token that gives the word number
    assigned: Integers = numbers[source]
    return assigned


def _strip_spans(spans: Integers, texts: Sequence[str], ids: Ragged[np.int32]) -> Integers:
    """Return the `spans` (T, 2) of the tokens `ids` without whitespace at their ends."""
    characters = characters_of(texts)
    start = ids.spread(characters.starts)
    visible = ~np.isin(characters.values, WHITESPACE_CODES)
    before = np.append(0, np.cumsum(visible))  # number of non-whitespace characters before each position
    position = np.append(np.flatnonzero(visible), 0)
    first, stop = before[start[:, None] + spans].T
    word_end = np.where(first > before[start], position[first - 1] + 1, start)  # end of the preceding word
    pair = np.where(first < stop, [position[first], position[stop - 1] + 1], word_end)
    return np.asarray(pair.T - start[:, None])


def join_and_truncate(parts: Sequence[UntruncatedTokens], max_length: int, unk_id: int) -> PositionedTokens:
    """Return the first `max_length` tokens of each text; a text without tokens becomes one unknown token of word 0."""
    ids = Ragged.concatenate([part.ids for part in parts])
    words = ids.with_values(np.concatenate([part.words for part in parts], dtype=np.int32))
    spans = ids.with_values(np.concatenate([part.spans for part in parts]))
    return PositionedTokens(
        ids=ids.truncate(max_length).fill_empty(unk_id),
        truncated=int((ids.lengths > max_length).sum()),
        words=words.truncate(max_length).fill_empty(0).values,
        spans=spans.truncate(max_length).fill_empty(0).values,
    )


def find_misaligned(texts: Sequence[str], words: Sequence[Sequence[str]]) -> int | None:
    """Return the index of the first text that differs from its joined `words`, ignoring whitespace; else None."""
    by_text, by_word = _non_whitespace(texts), _non_whitespace(list(chain.from_iterable(words)))
    counts = Ragged.from_lengths(by_word.lengths, lengths_of(words)).sums()
    if (unequal := np.flatnonzero(by_text.lengths != counts)).size:
        return int(unequal[0])
    different = np.flatnonzero(by_text.values != by_word.values)
    return int(by_text.row_numbers()[different[0]]) if different.size else None


def word_numbers(texts: Sequence[str], words: Sequence[Sequence[str]], tokens: PositionedTokens) -> NDArray[np.int32]:
    """Return the number of the word in which each token begins, (T,).

    Except for whitespace, each text is the concatenation of its `words`.
    """
    by_text, by_word = _non_whitespace(texts), _non_whitespace(list(chain.from_iterable(words)))
    counts = lengths_of(words)
    # word number of each non-whitespace character
    number = np.append(by_word.spread(Ragged.from_lengths(by_word.lengths, counts).positions()), 0)
    characters, row = characters_of(texts), tokens.ids.row_numbers()
    visible = ~np.isin(characters.values, WHITESPACE_CODES)
    rank = np.append(np.cumsum(visible), visible.sum()) - 1  # index of the last such character up to each position
    start = characters.starts[row] + tokens.spans[:, 0]
    own = np.maximum(rank[start], by_text.starts[row])
    numbers: NDArray[np.int32] = np.minimum(number[own], counts[row] - 1).astype(np.int32)
    return numbers


def label_first_tokens(labels: Ragged[Any], number: NDArray[np.int32], tokens: Ragged[np.int32]) -> NDArray[np.int16]:
    """Return the label of each word on the first token that begins in it and -1 on all other tokens, (T,).

    `labels` holds the labels of the words of each text, and `number` (T,) the number of the word in which each of the
    `tokens` begins.
    """
    word = tokens.spread(labels.starts) + number
    first = np.diff(word, prepend=-1) != 0
    return np.where(first, labels.values[word], NO_LABEL).astype(np.int16)


def _non_whitespace(strings: Sequence[str]) -> Ragged[np.uint32]:
    """Return the code points of the non-whitespace characters of each string."""
    characters = characters_of(strings)
    visible = ~np.isin(characters.values, WHITESPACE_CODES)
    return Ragged.from_lengths(characters.values[visible], characters.with_values(visible).sums())


def _flatten(sequences: Iterable[Iterable[Any]], dtype: type, size: int) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(sequences), dtype, size)
