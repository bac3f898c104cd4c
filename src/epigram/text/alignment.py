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
from epigram.text.characters import code_points

Integers = NDArray[np.int64]
NO_LABEL = -1
BLANKS = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


class Located(NamedTuple):
    """Token ids of N texts with their positions, counted in characters of the text."""

    ids: NDArray[np.int32]  # (T,)
    offsets: Integers  # (N + 1,): text n has the tokens offsets[n] : offsets[n + 1]
    truncated: int  # number of truncated texts
    words: NDArray[np.int32]  # (T,): word number of the token in its text
    spans: Integers  # (T, 2): start and end of the token


class Whole(NamedTuple):
    """All tokens of some texts before truncation; `counts` (N,) is the number of tokens of each text."""

    ids: NDArray[np.int32]
    counts: Integers
    words: Integers
    spans: Integers


def by_table(table: NDArray[np.int32], texts: Sequence[str]) -> Whole:
    """Tokenize by characters: each character is a token and a word.

    Whitespace belongs to the preceding word, as in `by_library`.
    """
    counts = lengths(texts)
    place = positions_in_groups(counts)
    spans = _trimmed(np.stack([place, place + 1], axis=1), texts, counts)
    return Whole(table[code_points(texts)], counts, _with_blanks(place, spans, counts), spans)


def by_library(tokenizer: Tokenizer, texts: Sequence[str]) -> Whole:
    """Tokenize with `tokenizer`; its pre-tokens are the words.

    Spans exclude leading and trailing whitespace, which some tokenizers count as part of a token. A token of whitespace
    only belongs to the preceding word and has an empty span at the end of that word.
    """
    found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = [encoding.ids for encoding in found]
    counts = lengths(ids)
    size = int(counts.sum())
    numbers = _flat((encoding.word_ids for encoding in found), np.int64, size)
    pairs = chain.from_iterable(encoding.offsets for encoding in found)
    spans = _trimmed(_flat(pairs, np.int64, 2 * size).reshape(size, 2), texts, counts)
    return Whole(_flat(ids, np.int32, size), counts, _with_blanks(numbers, spans, counts), spans)


def _with_blanks(numbers: Integers, spans: Integers, counts: Integers) -> Integers:
    """Return the word numbers (T,); a whitespace token, which has an empty span, gets that of the preceding token."""
    blank = (spans[:, 0] == spans[:, 1]) & (positions_in_groups(counts) > 0)
    named_by = np.maximum.accumulate(np.where(blank, 0, np.arange(len(numbers))))  # token that gives the word number
    named: Integers = numbers[named_by]
    return named


def _trimmed(spans: Integers, texts: Sequence[str], counts: Integers) -> Integers:
    """Return `spans` (T, 2) without whitespace at their ends; `counts` (N,) is the number of tokens of each text."""
    sizes = lengths(texts)
    start = np.repeat(np.cumsum(sizes) - sizes, counts)
    inked = ~np.isin(code_points(texts), BLANKS)
    before = np.append(0, np.cumsum(inked))  # number of non-whitespace characters before each position
    place = np.append(np.flatnonzero(inked), 0)
    first, stop = before[start[:, None] + spans].T
    behind = np.where(first > before[start], place[first - 1] + 1, start)  # end of the preceding word
    pair = np.where(first < stop, [place[first], place[stop - 1] + 1], behind)
    return np.asarray(pair.T - start[:, None])


def located(parts: Sequence[Whole], max_length: int, unk_id: int) -> Located:
    """Return the first `max_length` tokens of each text; a text without tokens becomes one unknown token of word 0."""
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    kept = positions_in_groups(counts) < max_length
    left = np.minimum(counts, max_length)
    holes = (np.cumsum(left) - left)[left == 0]
    ids = np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)])[kept]
    words = np.concatenate([np.zeros(0, np.int32), *(part.words for part in parts)], dtype=np.int32)[kept]
    spans = np.concatenate([np.zeros((0, 2), np.int64), *(part.spans for part in parts)])[kept]
    return Located(
        ids=np.insert(ids, holes, unk_id),
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(np.maximum(left, 1))]),
        truncated=int((counts > max_length).sum()),
        words=np.insert(words, holes, 0),
        spans=np.insert(spans, holes, 0, axis=0),
    )


def misaligned(texts: Sequence[str], words: Sequence[Sequence[str]]) -> int | None:
    """Return the index of the first text that its `words` do not spell, ignoring whitespace; None if all match."""
    codes, sizes = _inked(texts)
    flat = list(chain.from_iterable(words))
    spelled, each = _inked(flat)
    counts = _sums(each, lengths(words))
    if (torn := np.flatnonzero(sizes != counts)).size:
        return int(torn[0])
    different = np.flatnonzero(codes != spelled)
    return int(np.searchsorted(np.cumsum(sizes), different[0], side="right")) if different.size else None


def words_of(texts: Sequence[str], words: Sequence[Sequence[str]], tokens: Located) -> NDArray[np.int32]:
    """Return the number of the word in which each token begins, (T,); `words` spell the texts."""
    many, sizes = lengths(words), lengths(texts)
    _, each = _inked(list(chain.from_iterable(words)))
    number = np.append(np.repeat(positions_in_groups(many), each), 0)  # word number of each non-whitespace character
    inked = ~np.isin(code_points(texts), BLANKS)
    rank = np.append(np.cumsum(inked), inked.sum()) - 1  # index of the last such character up to each position
    row = np.repeat(np.arange(len(texts)), np.diff(tokens.offsets))
    ink = _sums(inked, sizes)
    first = (np.cumsum(ink) - ink)[row]
    place = (np.cumsum(sizes) - sizes)[row] + tokens.spans[:, 0]
    found: NDArray[np.int32] = np.minimum(number[np.maximum(rank[place], first)], many[row] - 1).astype(np.int32)
    return found


def on_first_pieces(
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


def _inked(strings: Sequence[str]) -> tuple[NDArray[np.uint32], Integers]:
    """Return the non-whitespace characters of all `strings`, and their number in each string."""
    codes = code_points(strings)
    inked = ~np.isin(codes, BLANKS)
    return codes[inked], _sums(inked, lengths(strings))


def _sums(values: NDArray[Any], counts: Integers) -> Integers:
    """Return the sum of each group of `values`, for consecutive groups of the sizes `counts`."""
    up_to = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return np.diff(up_to[np.cumsum(counts)], prepend=0)


def _flat(sequences: Iterable[Iterable[Any]], dtype: type, size: int) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(sequences), dtype, size)
