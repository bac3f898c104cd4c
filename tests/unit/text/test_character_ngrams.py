"""Character n-grams: which ones a text has, and the cosine of two texts."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from epigram.text.tokens.characters import cosines, hash_ngrams, mix, ngram_sets


def trigrams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


@pytest.mark.parametrize("pair", [("large room", "large rooms"), ("a", "a"), ("abcabcabc", "abc"), ("x y", "z")])
def test_the_cosine_is_that_of_the_sets_of_trigrams(pair: tuple[str, str]) -> None:
    first, second = map(trigrams, pair)
    sets = ngram_sets(pair, "en")
    expected = len(first & second) / sqrt(len(first) * len(second))
    assert cosines(sets[[0]], sets[[1]]) == pytest.approx([expected])


def test_chinese_texts_have_bigrams() -> None:
    sets = ngram_sets(["好吃", "很好吃"], "zh")  # " 好", "好吃", "吃 " and " 很", "很好", "好吃", "吃 "
    assert np.diff(sets.indptr).tolist() == [3, 4]
    assert cosines(sets[[0]], sets[[1]]) == pytest.approx([2 / sqrt(12)])


def test_rows_are_compared_with_one_row() -> None:
    sets = ngram_sets(["abc", "abd", ""], "en")
    assert cosines(sets, sets[[0]]) == pytest.approx([1.0, 1 / 3, 0.0])


def test_no_ngram_crosses_two_texts_and_the_order_of_characters_counts() -> None:
    alone = [hash_ngrams([text], "en").values.tolist() for text in ("ab", "", "c", "cba")]
    assert [each.tolist() for each in hash_ngrams(["ab", "", "c", "cba"], "en")] == alone
    assert [len(each) for each in alone] == [2, 0, 1, 3]
    assert set(hash_ngrams(["abc"], "en").values.tolist()).isdisjoint(alone[3])


def split_mix(state: int) -> int:
    """One step of SplitMix64 in Python's integers, as published."""
    mask = (1 << 64) - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


def test_the_hash_is_that_of_split_mix() -> None:
    assert split_mix(0) == 0xE220A8397B1DCDAF  # the first number of the published generator with seed 0
    numbers = [0, 1, 12345, 2**64 - 1]
    assert mix(np.array(numbers, np.uint64)).tolist() == list(map(split_mix, numbers))
    steps = split_mix(split_mix(split_mix(ord(" ")) ^ ord("a")) ^ ord(" "))
    assert hash_ngrams(["a"], "en").values.tolist() == [steps]
