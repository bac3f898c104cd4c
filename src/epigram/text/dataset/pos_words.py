"""Part-of-speech weights of tokens that are parts of words: a token takes the weight of its word (Transformer-F).

Chinese texts are segmented by jieba, which also knows the words of the part-of-speech table. English words are runs of
letters, whatever pieces they consist of. A model that is saved has the weights of its words, so it needs no table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.core.config_types import find_fault
from epigram.core.errors import DataError
from epigram.text.dataset.language import is_mark
from epigram.text.dataset.segmenter import Segmenter, tokenizer_with
from epigram.text.dataset.token_texts import SPECIAL_TOKEN, TokenTexts

OWN = -1.0  # the token keeps the weight of its vocabulary entry
CHUNK_TOKENS = 200_000  # limits the memory of the segmented text
MAX_FREQUENCY = 10**9
ENGLISH_WORD = re.compile(r"\w+|\W")


@dataclass(frozen=True, kw_only=True)
class PosWords:
    """Weights of words. A word that is not in `weights` is a function word if it is a mark, and else notional."""

    language: str  # zh or en
    pieces: bool  # tokens may be pieces of words of letters
    notional: float
    function: float
    weights: dict[str, float]
    frequencies: dict[str, int]  # frequencies of words that jieba's dictionary lacks

    @classmethod
    def parse(cls, content: Any, where: str) -> PosWords:
        """Return the words in JSON `content`, read from `where`. Raises DataError if they are invalid."""
        if fault := find_fault(content, get_type_hints(cls), "pos_words"):
            raise DataError(f"{where}: {fault}; restore the folder")
        words = cls(**content)
        if not all(0 <= each <= 1 for each in (words.notional, words.function, *words.weights.values())):
            raise DataError(f"{where}: pos_words has weights outside 0 to 1; restore the folder")
        if not all(word and 0 < count <= MAX_FREQUENCY for word, count in words.frequencies.items()):
            raise DataError(f"{where}: pos_words has frequencies outside 1 to {MAX_FREQUENCY:,}; restore the folder")
        return words

    def weight(self, word: str) -> float:
        """Return the weight of a word."""
        known = self.weights.get(word.lower() if self.language == "en" else word)
        if known is not None:
            return known
        return self.function if is_mark(word) else self.notional


class WordWeights:
    """Finder of the weights of tokens, prepared for one vocabulary in the order of its ids."""

    def __init__(self, words: PosWords, vocabulary: Sequence[str]) -> None:
        self._words = words
        self._texts = TokenTexts(vocabulary, pieces=words.pieces)
        self._special = np.array([SPECIAL_TOKEN.fullmatch(entry) is not None for entry in vocabulary])
        chinese = words.language == "zh"
        self._cut: Segmenter = tokenizer_with(words.frequencies).cut if chinese else ENGLISH_WORD.findall

    def find(self, ids: Ragged[Any], room: int) -> NDArray[np.float32]:
        """Return the weight of the word that contains each of the T tokens of N texts, (T,), OWN for special tokens.

        Words are found in the first `room` tokens of a text, which the model reads.
        """
        weights = np.full(len(ids.values), OWN, dtype=np.float32)
        read = ids.positions() < room
        texts = ids.truncate(room)
        cuts = np.flatnonzero(np.diff(texts.starts // CHUNK_TOKENS)) + 1
        chunks = (texts[start:stop] for start, stop in pairwise([0, *cuts.tolist(), len(texts)]))
        weights[read] = np.concatenate([np.zeros(0, np.float32), *map(self._find, chunks)])
        return weights

    def _find(self, ids: Ragged[Any]) -> NDArray[np.float32]:
        text, positions = self._texts.join(ids)
        words = list(self._cut(text))
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        by_word = np.array([self._words.weight(word) for word in words], dtype=np.float32)
        by_character = np.repeat(by_word, lengths)
        by_token = np.append(by_character, OWN)[positions]  # a piece without characters may be at the end
        return np.where(self._special[ids.values], np.float32(OWN), by_token).astype(np.float32)
