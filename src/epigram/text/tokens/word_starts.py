"""Word boundaries among the tokens of a view, for whole-word masking.

English WordPiece tokens that start with `##` continue a word; English word tokens are whole words. Chinese is segmented
by jieba: all characters of one jieba word belong together (whole-word masking, Cui et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.text.dataset.segmenter import jieba
from epigram.text.dataset.token_texts import CONTINUATION, TokenTexts


class WordStarts:
    """Finder of word starts in encoded texts, prepared for one vocabulary in the order of its ids."""

    def __init__(self, vocabulary: Sequence[str], *, language: str, pieces: bool) -> None:
        self._continues = np.array([pieces and CONTINUATION.match(entry) is not None for entry in vocabulary])
        self._texts = TokenTexts(vocabulary, pieces=pieces) if language == "zh" else None

    def find(self, ids: Ragged[np.int32]) -> NDArray[np.bool_]:
        """Return whether each of the T tokens of N texts begins a word, (T,)."""
        starts = ~self._continues[ids.values]
        if self._texts is not None:
            starts &= _jieba_starts(self._texts, ids)
        starts[ids.starts] = True
        return starts


def _jieba_starts(texts: TokenTexts, ids: Ragged[np.int32]) -> NDArray[np.bool_]:
    """Return whether a jieba word begins with each token."""
    text, positions = texts.join(ids)
    begins = np.zeros(len(text) + 1, dtype=bool)
    begins[np.cumsum(np.fromiter((len(word) for word in _segment(text)), np.int64))] = True
    word_starts: NDArray[np.bool_] = begins[positions]
    return word_starts


def _segment(text: str) -> Iterable[str]:
    words: Iterable[str] = jieba().cut(text)
    return words
