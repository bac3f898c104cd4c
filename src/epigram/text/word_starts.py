"""Word boundaries among the tokens of a view, for whole-word masking.

English WordPiece tokens that start with `##` continue a word; English word tokens are whole words. Chinese is segmented
by jieba: all characters of one jieba word belong together (whole-word masking, Cui et al. 2020).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.text.segmenter import jieba
from epigram.text.tokenizers import SPECIALS

CONTINUATION_PREFIX = "##"
HAN = re.compile("[\u4e00-\u9fff]")
SEPARATOR = "\n"  # a character that jieba never includes in a word


class WordStarts:
    """Finder of word starts in encoded texts, prepared for one vocabulary in the order of its ids."""

    def __init__(self, vocabulary: Sequence[str], *, language: str, pieces: bool) -> None:
        self._continues = np.array([pieces and entry.startswith(CONTINUATION_PREFIX) for entry in vocabulary])
        self._surfaces: list[str] | None = None
        if language == "zh":
            self._surfaces = [_surface(entry, pieces) for entry in vocabulary]
            self._lengths = np.array([len(surface) for surface in self._surfaces])
            self._lead = np.array([surface.startswith(" ") and len(surface) > 1 for surface in self._surfaces])

    def find(self, ids: Ragged[np.int32]) -> NDArray[np.bool_]:
        """Return whether each of the T tokens of N texts begins a word, (T,)."""
        starts = ~self._continues[ids.values]
        if self._surfaces is not None:
            starts &= self._jieba_starts(self._surfaces, ids)
        starts[ids.starts] = True
        return starts

    def _jieba_starts(self, surfaces: list[str], ids: Ragged[np.int32]) -> NDArray[np.bool_]:
        """Return whether a jieba word begins with each token."""
        tokens = [surfaces[index] for index in ids.values.tolist()]
        text = "".join(SEPARATOR + "".join(tokens[start:stop]) for start, stop in pairwise(ids.offsets.tolist()))
        sizes = self._lengths[ids.values]
        separated = sizes.copy()
        separated[ids.starts] += len(SEPARATOR)
        positions = np.cumsum(separated) - sizes + self._lead[ids.values]  # of each token's first character
        begins = np.zeros(len(text) + 1, dtype=bool)
        begins[np.cumsum(np.fromiter((len(word) for word in _segment(text)), np.int64))] = True
        word_starts: NDArray[np.bool_] = begins[positions]
        return word_starts


def _surface(entry: str, pieces: bool) -> str:
    """Return the text of a token for jieba, with a space before a piece that begins a word of letters."""
    if entry in SPECIALS:
        return SEPARATOR
    if not pieces or (len(entry) == 1 and HAN.match(entry)):
        return entry
    return entry.removeprefix(CONTINUATION_PREFIX) if entry.startswith(CONTINUATION_PREFIX) else f" {entry}"


def _segment(text: str) -> Iterable[str]:
    words: Iterable[str] = jieba().cut(text)
    return words
