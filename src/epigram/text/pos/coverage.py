"""Coverage of a corpus by the part-of-speech table, and its share of notional words."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from epigram.text.dataset.language import Language
from epigram.text.dataset.marks import is_mark
from epigram.text.pos.pos_table import PosTable, weights_for
from epigram.text.tokens.characters import by_frequency, count_characters
from epigram.text.tokens.tokenizers import split_words


class SplitCoverage(TypedDict):
    """Coverage of the sampled texts of one split."""

    texts: int
    tokens: int
    covered: float  # share of the tokens, punctuation excluded, that have a row in the table
    notional: float  # share of all tokens that have the weight of notional words


def coverage(texts: list[str], table: PosTable, language: Language) -> SplitCoverage:
    """Measure the coverage of `texts`. Tokens are characters in Chinese and words in English."""
    counts = _characters(texts) if language == "zh" else Counter(word for words in split_words(texts) for word in words)
    entries = list(counts)
    numbers = np.array([counts[entry] for entry in entries], dtype=np.int64)
    known = set(table.frame.filter(table.frame["language"] == language)["entry"])
    in_table = np.array([entry in known for entry in entries], dtype=bool)
    word = np.array([not is_mark(entry) for entry in entries], dtype=bool)
    notional = weights_for(entries, table, language) == np.float32(table.settings.notional)
    return SplitCoverage(
        texts=len(texts),
        tokens=int(numbers.sum()),
        covered=_share(numbers, in_table & word, word),
        notional=_share(numbers, notional, np.ones_like(word)),
    )


def _characters(texts: list[str]) -> dict[str, int]:
    counts = count_characters([texts])
    return {character: int(counts[ord(character)]) for character in by_frequency(counts, 1)}


def _share(counts: NDArray[np.int64], part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(counts[part].sum() / max(counts[whole].sum(), 1))
