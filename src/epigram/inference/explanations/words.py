"""Words of a text as its readers see them, and sums over them.

Shapes: L characters, W words, T tokens.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Integers, lengths_of, ranges
from epigram.core.pairs import PAIR
from epigram.text.dataset.segmenter import tokenizer_with
from epigram.text.tokens.characters import WHITESPACE, strip

Scores = NDArray[np.float64]
# combining marks, zero-width joiners and variation selectors belong to the character before them
MARKS = "\u0300-\u036f\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff"
SIGN = rf"[^\w{WHITESPACE}]"
ENGLISH_WORD = re.compile(rf"[\w{MARKS}]+(?:['’][\w{MARKS}]+)*|{SIGN}[{MARKS}]*(?:(?<=\u200d){SIGN}[{MARKS}]*)*")


def find_words(text: str, language: str) -> Integers:
    """Return start and end of each word of `text`, (W, 2). Punctuation marks are words.

    Chinese words are found by jieba; English words are runs of letters and digits, with their apostrophes.
    """
    if language != "zh":
        spans = [match.span() for match in ENGLISH_WORD.finditer(text) if match[0] != PAIR]
        return np.array(spans, np.int64).reshape(-1, 2)
    words = list(tokenizer_with({}).cut(text))
    ends = np.cumsum(lengths_of(words))
    visible = np.array([bool(strip(word)) and word != PAIR for word in words], np.bool_)
    return np.stack([ends - lengths_of(words), ends], axis=1)[visible]


def sum_by_word(scores: Scores, spans: Integers, words: Integers) -> Scores:
    """Return the sum of the `scores` (T,) of tokens for each of the `words` (W, 2), (W,).

    A token of several words, from character to character of `spans` (T, 2), gives each a share by its characters. A
    token without characters, and whitespace, belong to the preceding word, or to the first one.
    """
    start, end = spans.T
    empty = start == end
    characters = ranges(np.where(empty, np.maximum(start - 1, 0), start), np.maximum(end - start, 1))
    of = np.maximum(np.searchsorted(words[:, 0], characters.values, "right") - 1, 0)
    return np.bincount(of, characters.spread(scores / characters.lengths), len(words)).astype(np.float64)
