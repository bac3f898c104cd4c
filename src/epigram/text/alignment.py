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

from epigram.core.ragged import positions_in_groups
from epigram.text.characters import WHITESPACE_CODES, code_points

Integers = NDArray[np.int64]
NO_LABEL = -1


class PositionedTokens(NamedTuple):
    """Token ids of N texts with their positions, counted in characters of the text."""

    ids: NDArray[np.int32]  # (T,)
    offsets: Integers  # (N + 1,): text n has the tokens offsets[n] : offsets[n + 1]
    truncated: int  # number of truncated texts
    words: NDArray[np.int32]  # (T,): word number of the token in its text
    spans: Integers  # (T, 2): start and end of the token


class UntruncatedTokens(NamedTuple):
    """All tokens of some texts before truncation; `counts` (N,) is the number of tokens of each text."""

    ids: NDArray[np.int32]
    counts: Integers
    words: Integers
    spans: Integers


def align_characters(table: NDArray[np.int32], texts: Sequence[str]) -> UntruncatedTokens:
    """Tokenize by characters: each character is a token and a word.

    Whitespace belongs to the preceding word, as in `align_tokens`.
    """
    counts = lengths(texts)
    position = positions_in_groups(counts)
    spans = _strip_spans(np.stack([position, position + 1], axis=1), texts, counts)
    return UntruncatedTokens(table[code_points(texts)], counts, _assign_whitespace(position, spans, counts), spans)


def align_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> UntruncatedTokens:
    """Tokenize with `tokenizer`; its pre-tokens are the words.

    Spans exclude leading and trailing whitespace, which some tokenizers count as part of a token. A token of whitespace
    only belongs to the preceding word and has an empty span at the end of that word.
    """
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = [encoding.ids for encoding in encodings]
    counts = lengths(ids)
    size = int(counts.sum())
    numbers = _flatten((encoding.word_ids for encoding in encodings), np.int64, size)
    pairs = chain.from_iterable(encoding.offsets for encoding in encodings)
    spans = _strip_spans(_flatten(pairs, np.int64, 2 * size).reshape(size, 2), texts, counts)
    return UntruncatedTokens(_flatten(ids, np.int32, size), counts, _assign_whitespace(numbers, spans, counts), spans)


def _assign_whitespace(numbers: Integers, spans: Integers, counts: Integers) -> Integers:
    """Return the word numbers (T,); a whitespace token, which has an empty span, gets that of the preceding token."""
    blank = (spans[:, 0] == spans[:, 1]) & (positions_in_groups(counts) > 0)
    source = np.maximum.accumulate(np.where(blank, 0, np.arange(len(numbers))))  # token that gives the word number
    assigned: Integers = numbers[source]
    return assigned


def _strip_spans(spans: Integers, texts: Sequence[str], counts: Integers) -> Integers:
    """Return `spans` (T, 2) without whitespace at their ends; `counts` (N,) is the number of tokens of each text."""
    sizes = lengths(texts)
    start = np.repeat(np.cumsum(sizes) - sizes, counts)
    visible = ~np.isin(code_points(texts), WHITESPACE_CODES)
    before = np.append(0, np.cumsum(visible))  # number of non-whitespace characters before each position
    position = np.append(np.flatnonzero(visible), 0)
    first, stop = before[start[:, None] + spans].T
    word_end = np.where(first > before[start], position[first - 1] + 1, start)  # end of the preceding word
    pair = np.where(first < stop, [position[first], position[stop - 1] + 1], word_end)
    return np.asarray(pair.T - start[:, None])


def join_and_truncate(parts: Sequence[UntruncatedTokens], max_length: int, unk_id: int) -> PositionedTokens:
    """Return the first `max_length` tokens of each text; a text without tokens becomes one unknown token of word 0."""
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    selected = positions_in_groups(counts) < max_length
    sizes = np.minimum(counts, max_length)
    empty = (np.cumsum(sizes) - sizes)[sizes == 0]  # positions where an unknown token is inserted
    ids = np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)])[selected]
    words = np.concatenate([np.zeros(0, np.int32), *(part.words for part in parts)], dtype=np.int32)[selected]
    spans = np.concatenate([np.zeros((0, 2), np.int64), *(part.spans for part in parts)])[selected]
    return PositionedTokens(
        ids=np.insert(ids, empty, unk_id),
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(np.maximum(sizes, 1))]),
        truncated=int((counts > max_length).sum()),
        words=np.insert(words, empty, 0),
        spans=np.insert(spans, empty, 0, axis=0),
    )


def find_misaligned(texts: Sequence[str], words: Sequence[Sequence[str]]) -> int | None:
    """Return the index of the first text that differs from its joined `words`, ignoring whitespace; else None."""
    codes, sizes = _non_whitespace(texts)
    flat = list(chain.from_iterable(words))
    joined, word_sizes = _non_whitespace(flat)
    counts = _group_sums(word_sizes, lengths(words))
    if (unequal := np.flatnonzero(sizes != counts)).size:
        return int(unequal[0])
    different = np.flatnonzero(codes != joined)
    return int(np.searchsorted(np.cumsum(sizes), different[0], side="right")) if different.size else None


def word_numbers(texts: Sequence[str], words: Sequence[Sequence[str]], tokens: PositionedTokens) -> NDArray[np.int32]:
    """Return the number of the word in which each token begins, (T,); the joined `words` are the texts."""
    counts, sizes = lengths(words), lengths(texts)
    _, word_sizes = _non_whitespace(list(chain.from_iterable(words)))
    # word number of each non-whitespace character
    number = np.append(np.repeat(positions_in_groups(counts), word_sizes), 0)
    visible = ~np.isin(code_points(texts), WHITESPACE_CODES)
    rank = np.append(np.cumsum(visible), visible.sum()) - 1  # index of the last such character up to each position
    row = np.repeat(np.arange(len(texts)), np.diff(tokens.offsets))
    visible_sizes = _group_sums(visible, sizes)
    first = (np.cumsum(visible_sizes) - visible_sizes)[row]
    start = (np.cumsum(sizes) - sizes)[row] + tokens.spans[:, 0]
    numbers: NDArray[np.int32] = np.minimum(number[np.maximum(rank[start], first)], counts[row] - 1).astype(np.int32)
    return numbers


def label_first_tokens(
    labels: NDArray[np.integer], counts: Integers, number: NDArray[np.int32], offsets: Integers
) -> NDArray[np.int16]:
    """Return the label of each word on the first token that begins in it and -1 on all other tokens, (T,).

    `labels` holds the labels of all words, `counts` (N,) the number of words of each text, `number` (T,) the number of
    the word in which each token begins, and `offsets` (N + 1,) the token offsets of the texts.
    """
    row = np.repeat(np.arange(len(counts)), np.diff(offsets))
    word = (np.cumsum(counts) - counts)[row] + number
    first = np.diff(word, prepend=-1) != 0
    return np.where(first, labels[word], NO_LABEL).astype(np.int16)


def lengths(sequences: Sequence[Sequence[object]]) -> Integers:
    """Return the length of each sequence."""
    return np.fromiter(map(len, sequences), np.int64, len(sequences))


def _non_whitespace(strings: Sequence[str]) -> tuple[NDArray[np.uint32], Integers]:
    """Return the non-whitespace characters of all `strings`, and their number in each string."""
    codes = code_points(strings)
    visible = ~np.isin(codes, WHITESPACE_CODES)
    return codes[visible], _group_sums(visible, lengths(strings))


def _group_sums(values: NDArray[Any], counts: Integers) -> Integers:
    """Return the sum of each group of `values`, for consecutive groups of the sizes `counts`."""
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return np.diff(totals[np.cumsum(counts)], prepend=0)


def _flatten(sequences: Iterable[Iterable[Any]], dtype: type, size: int) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(sequences), dtype, size)
