"""The text of encoded rows, so that words can be found in it: each token's characters, and where it begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from epigram.core.arrays import Integers, Ragged

CONTINUATION = re.compile("^##")  # WordPiece: the piece continues a word
WORD_PREFIX = re.compile("^[Ġ▁]")  # byte-level BPE and SentencePiece: the piece begins a word
SPECIAL_TOKEN = re.compile(r"(\[\w+\]|<\|?/?\w+\|?>)")  # [MASK], [unused1], <s>, </s>, <|mask|>
HAN = re.compile("[\u4e00-\u9fff]")
SEPARATOR = "\n"  # a character that jieba never includes in a word


class TokenTexts:
    """Texts of encoded rows, prepared for one vocabulary in the order of its ids.

    Special tokens become SEPARATOR, and a space precedes each piece that begins a word of letters.
    """

    def __init__(self, vocabulary: Sequence[str], *, pieces: bool) -> None:
        prefixed = any(map(WORD_PREFIX.match, vocabulary)) and not any(map(CONTINUATION.match, vocabulary))
        self._surfaces = [_surface(entry, pieces, prefixed) for entry in vocabulary]
        self._lengths = np.array([len(surface) for surface in self._surfaces])
        self._lead = np.array([surface.startswith(" ") and len(surface) > 1 for surface in self._surfaces])

    def join(self, ids: Ragged[Any]) -> tuple[str, Integers]:
        """Return all rows as one text, SEPARATOR before each, and the position of each token's first character."""
        tokens = [self._surfaces[index] for index in ids.values.tolist()]
        text = "".join(SEPARATOR + "".join(tokens[start:stop]) for start, stop in pairwise(ids.offsets.tolist()))
        sizes = self._lengths[ids.values]
        separated = sizes + np.bincount(ids.starts, minlength=len(sizes))[: len(sizes)] * len(SEPARATOR)
        positions: Integers = np.cumsum(separated) - sizes + self._lead[ids.values]
        return text, positions


def _surface(entry: str, pieces: bool, prefixed: bool) -> str:
    """Return the text of a token; `prefixed` says that pieces which begin a word have a prefix, as in BPE."""
    if SPECIAL_TOKEN.fullmatch(entry):
        return SEPARATOR
    if not pieces or (len(entry) == 1 and HAN.match(entry)):
        return entry
    if prefixed:
        return WORD_PREFIX.sub(" ", entry)
    return CONTINUATION.sub("", entry) if CONTINUATION.match(entry) else f" {entry}"
