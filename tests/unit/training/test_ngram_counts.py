"""Tests of the counts of n-grams: the same as those of one text after the other, whatever the spellings share."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.nn.layers.ngrams import Counted, counted_keys
from epigram.training.linear import tfidf
from epigram.training.linear.tfidf import count_ngrams, distinct_spellings

VOCABULARY, ALPHABET = 12, 6
SPELLINGS = [[], [1], [2, 3], [2, 3], [3, 2], [2, 3, 0 + 1], [5, 5, 5, 5], [1, 2, 3, 4, 5]]
DRAW = np.random.default_rng(3)
ROWS = [DRAW.integers(0, 8, n).tolist() for n in (0, 1, 5, 9, 0, 40, 3)]


def texts(prefix: list[int]) -> TextBatches:
    """Return texts of token ids 0 to 7, whose tokens of one id have different spellings by place."""
    spelled = [SPELLINGS[(token + place) % 8] for row in ROWS for place, token in enumerate(row)]
    return TextBatches(
        Ragged.from_lists(ROWS, np.int64), prefix=prefix, suffix=[], max_length=32, pad_id=0, unk_id=1,
        characters=Ragged.from_lists(spelled, np.int64),
    )  # fmt: skip


def one_by_one(of: TextBatches, row: int, counted: Counted) -> Counter[int]:
    return Counter(counted_keys(of.gather(np.array([row])), counted)[0].tolist())


@pytest.mark.parametrize("prefix", [[], [9, 10]])
@pytest.mark.parametrize("spelled", [None, (1, 1), (2, 5)])
@pytest.mark.parametrize("alike", [False, True])
def test_the_counts_are_those_of_one_text_after_the_other(
    prefix: list[int], spelled: tuple[int, int] | None, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if all spellings have the same hash, and in another order of the texts, with a text twice."""
    if alike:
        monkeypatch.setattr(tfidf, "_hashes", lambda letters: np.zeros(len(letters), np.uint64))
    of, counted = texts(prefix), Counted(VOCABULARY, (1, 2), ALPHABET, spelled)
    order = np.array([5, 0, 3, 3, 6, 1, 4, 2])
    keys, counts = count_ngrams(of, order, counted)
    assert (np.diff(keys) > 0).all()
    assert counts.shape == (len(order), len(keys))
    for place, row in enumerate(order.tolist()):
        line: Any = counts[place]
        assert {int(keys[n]): int(c) for n, c in zip(line.indices, line.data, strict=True)} == one_by_one(
            of, row, counted
        )


def test_texts_without_tokens_have_no_ngrams_of_characters() -> None:
    counted = Counted(VOCABULARY, (1, 1), ALPHABET, (2, 3))
    keys, counts = count_ngrams(texts([]), np.array([0, 4]), counted)
    assert (keys.tolist(), counts.toarray().tolist()) == ([2], [[1], [1]])  # the unknown token, of the id 1


def test_equal_spellings_are_one_and_others_are_not() -> None:
    of = texts([])
    assert of.characters is not None
    tokens = of.token_places(np.array([5, 2])).values
    first, spelling = distinct_spellings(of.characters, tokens)

    def letters(token: int) -> tuple[int, ...]:
        start, end = of.characters.offsets[token : token + 2].tolist()  # type: ignore[union-attr]
        return tuple(of.characters.characters[start:end].tolist())  # type: ignore[union-attr]

    assert [letters(token) for token in tokens] == [letters(first[number]) for number in spelling]
    assert len({letters(token) for token in first}) == len(first) == len({letters(token) for token in tokens})


def test_an_empty_text_has_no_tokens_of_its_own() -> None:
    assert texts([]).token_places(np.array([0, 1, 5])).lengths.tolist() == [0, 1, 32]
    assert torch.equal(texts([]).gather(np.array([0])).ids, torch.tensor([[1]]))
