"""TF-IDF over token n-grams against scikit-learn's TfidfVectorizer on strings of token ids."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.models.predict import Predicted, predict
from epigram.nn.layers.ngrams import ngram_keys
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.training.fitters.linear_svm import fit
from tests.parity.reference.batches import padded_ids

VOCABULARY = 12
GENERATOR = np.random.default_rng(7)
TRAIN = [GENERATOR.integers(0, 9, size=n).tolist() for n in GENERATOR.integers(1, 15, size=60)]
NEW = [[1, 1, 1, 1], [11], [10, 3, 11, 3, 4], [8], *[GENERATOR.integers(0, 12, size=n).tolist() for n in (2, 9, 17)]]


def strings(rows: list[list[int]]) -> list[str]:
    return [" ".join(map(str, row)) for row in rows]


def vectorizer(orders: tuple[int, int], min_rows: int = 1, *, sublinear: bool = True) -> TfidfVectorizer:
    return TfidfVectorizer(
        tokenizer=str.split,
        token_pattern=None,
        lowercase=False,
        ngram_range=orders,
        sublinear_tf=sublinear,
        min_df=min_rows,
    ).fit(strings(TRAIN))


def key(gram: str) -> int:
    """Return the key of one n-gram, as the model computes it."""
    ids = [int(part) for part in gram.split()]
    keys, _ = ngram_keys(padded_ids([ids]), VOCABULARY, (len(ids), len(ids)))
    return int(keys.item())


def machine(orders: tuple[int, int], min_rows: int = 1, *, sublinear: bool = True) -> LinearSvm:
    context = DataSpec(vocabulary=VOCABULARY, classes=2, max_length=32)
    listed = list(range(orders[0], orders[1] + 1))
    return LinearSvmConfig(orders=listed, min_rows=min_rows, sublinear=sublinear).build(context)


def dense(model: LinearSvm, tokens: Tokens) -> NDArray[np.float32]:
    """Return the model's features as a (B, F) array with columns by sorted key."""
    row, feature, value = model.features(tokens)
    table = np.zeros((len(tokens.ids), len(model.keys)), dtype=np.float32)
    np.add.at(table, (row.numpy(), feature.numpy()), value.numpy())
    return table


def by_key(known: TfidfVectorizer) -> tuple[list[int], NDArray[np.int64]]:
    """Return the sorted keys of the vectorizer's n-grams, and the vectorizer's column of each."""
    columns = {key(gram): column for gram, column in known.vocabulary_.items()}
    assert len(columns) == len(known.vocabulary_), "two n-grams share a key"
    keys = sorted(columns)
    return keys, np.array([columns[one] for one in keys])


@pytest.mark.parametrize("sublinear", [True, False])
@pytest.mark.parametrize("orders", [(1, 2), (1, 1), (2, 3)])
def test_tfidf_features(orders: tuple[int, int], sublinear: bool) -> None:
    known = vectorizer(orders, sublinear=sublinear)
    keys, columns = by_key(known)
    model = machine(orders, sublinear=sublinear)
    model.install(torch.tensor(keys), torch.from_numpy(known.idf_[columns]), torch.zeros(len(keys), 2))
    for rows in (TRAIN, NEW):
        wanted = known.transform(strings(rows)).toarray()[:, columns]
        np.testing.assert_allclose(dense(model, padded_ids(rows, pad_id=3)), wanted, atol=1e-6)


def batches(rows: list[list[int]]) -> TextBatches:
    return TextBatches(
        Ragged.from_lists(rows, np.int32),
        prefix=[],
        suffix=[],
        max_length=32,
        pad_id=3,
        unk_id=1,
        labels=np.arange(len(rows)) % 2,
    )


@pytest.mark.parametrize("min_rows", [1, 3])
def test_tfidf_fitted_idf_and_vocabulary(min_rows: int) -> None:
    known = vectorizer((1, 2), min_rows)
    keys, columns = by_key(known)
    model = machine((1, 2), min_rows)
    fit(model, batches(TRAIN), batches(NEW), seed=0)
    assert model.keys.tolist() == keys
    np.testing.assert_allclose(model.idf, known.idf_[columns], atol=1e-6)
    wanted = known.transform(strings(NEW)).toarray()[:, columns]
    np.testing.assert_allclose(dense(model, padded_ids(NEW, pad_id=3)), wanted, atol=1e-6)


@pytest.mark.parametrize("labels", [[0, 2, 0, 2], [1, 3, 1, 3], [2, 2, 2, 2]])
def test_a_class_that_no_training_text_has_keeps_its_column(labels: list[int]) -> None:
    rows = Ragged.from_lists([[5, 6], [7, 8], [5, 6], [7, 8]], np.int64)
    frame = {"prefix": [], "suffix": [], "max_length": 8, "pad_id": 0, "unk_id": 1}
    texts = TextBatches(rows, labels=np.array(labels), **frame)
    model = LinearSvmConfig(min_rows=1).build(DataSpec(vocabulary=VOCABULARY, classes=4, max_length=8))
    fit(model, texts, texts, seed=0)
    logits = predict(model, texts).logits
    assert logits.shape == (4, 4)
    assert logits.argmax(1).tolist() == labels


def test_a_probability_that_is_almost_0_is_no_warning() -> None:
    with warnings.catch_warnings(action="error"):
        found = Predicted(np.array([[-200.0, 0.0, 200.0]], np.float32), None, multi=True).probabilities
    assert found.tolist() == [[0.0, 0.5, 1.0]]
