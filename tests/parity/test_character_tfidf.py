"""TF-IDF of tokens beside n-grams of their characters, against scikit-learn's TfidfVectorizer on the same spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvmConfig
from epigram.nn.layers.ngrams import SPELLED, character_keys
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.training.linear.tfidf import feature_matrix, fit_features

ALPHABET, VOCABULARY, PREFIX = 6, 12, [9, 10]  # character ids 1 to 5, and the mark 6
GENERATOR = np.random.default_rng(4)
SPELLING = {token: GENERATOR.integers(1, ALPHABET, GENERATOR.integers(0, 7)).tolist() for token in range(9)}
TRAIN, NEW = ([GENERATOR.integers(0, 9, n).tolist() for n in GENERATOR.integers(1, 9, 40)] for _ in range(2))


def texts(rows: list[list[int]], prefix: list[int]) -> TextBatches:
    spelled = [SPELLING[token] for row in rows for token in row]
    return TextBatches(
        Ragged.from_lists(rows, np.int64), prefix=prefix, suffix=[], max_length=32, pad_id=0, unk_id=1,
        labels=np.arange(len(rows)) % 2, characters=Ragged.from_lists(spelled, np.int64),
    )  # fmt: skip


def spelled_ngrams(lowest: int, highest: int) -> Callable[[list[int]], list[tuple[int, ...]]]:
    """Return a function that lists the n-grams of every spelled token between two marks."""

    def listed(row: list[int]) -> list[tuple[int, ...]]:
        words = [(ALPHABET, *SPELLING[token], ALPHABET) for token in row if SPELLING[token]]
        return [word[i : i + n] for word in words for n in range(lowest, highest + 1) for i in range(len(word) - n + 1)]

    return listed


def wanted(analyzer: Callable[..., Any], rows: list[list[int]]) -> NDArray[np.float64]:
    vectorizer = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True).fit(TRAIN)
    found = vectorizer.transform(rows).toarray()
    order = sorted(vectorizer.vocabulary_, key=lambda ngram: (len(ngram), ngram))
    return np.asarray(found[:, [vectorizer.vocabulary_[ngram] for ngram in order]])


@pytest.mark.parametrize("spelled", [(2, 3), (1, 1), (3, 5)])
def test_characters_and_tokens_have_half_of_the_squared_norm_each(spelled: tuple[int, int]) -> None:
    context = DataSpec(vocabulary=VOCABULARY, classes=2, max_length=32, characters=ALPHABET)
    model = LinearSvmConfig(orders=[1], characters=list(range(spelled[0], spelled[1] + 1))).build(context)
    found = fit_features(model, texts(TRAIN, [])), feature_matrix(model, texts(NEW, []))
    for rows, matrix in zip((TRAIN, NEW), found, strict=True):
        parts = wanted(spelled_ngrams(*spelled), rows), wanted(lambda row: [(token,) for token in row], rows)
        np.testing.assert_allclose(matrix.toarray(), np.hstack(parts) / np.sqrt(2), atol=1e-6)


def test_keys_of_characters() -> None:
    """Digits to the base 7: the mark is 6, a token without characters and padding have no key."""
    characters = torch.tensor([[[1, 2], [0, 0]], [[5, 0], [3, 3]]])
    tokens = Tokens(torch.zeros(2, 2).long(), torch.tensor([[True, True], [True, False]]), characters=characters)
    keys, rows = character_keys(tokens, ALPHABET, (2, 3))
    pairs = {(6, 1): 0, (1, 2): 0, (2, 6): 0, (6, 5): 1, (5, 6): 1}
    triples = {(6, 1, 2): 0, (1, 2, 6): 0, (6, 5, 6): 1}
    digits = {sum(d * 7**i for i, d in enumerate(reversed(gram))): row for gram, row in (pairs | triples).items()}
    assert dict(zip((keys - SPELLED).tolist(), rows.tolist(), strict=True)) == digits


def test_a_prompt_has_no_characters() -> None:
    plain, prompted = (texts(TRAIN, prefix) for prefix in ([], PREFIX))
    rows = np.arange(len(TRAIN))
    first, second = (character_keys(part.gather(rows), ALPHABET, (2, 4)) for part in (plain, prompted))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
