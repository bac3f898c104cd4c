"""Tests of the probabilities of the most probable labels: which are kept, and the rule for the others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from epigram.evaluation import label_probabilities
from epigram.evaluation.arrays import Floats
from epigram.evaluation.label_probabilities import TOP, LabelProbabilities

CLASSES = 50


def drawn(rows: int = 300, classes: int = CLASSES, seeds: int = 2, scale: float = 1.5) -> Floats:
    """Return probabilities (K, N, C) in double precision."""
    return np.asarray(softmax(np.random.default_rng(0).normal(0, scale, (seeds, rows, classes)), axis=-1))


def read(kept: LabelProbabilities) -> Floats:
    """Return the probabilities of all labels by the rule, label by label."""
    seeds, rows, classes = kept.shape
    out = np.empty(kept.shape)
    for k in range(seeds):
        for n in range(rows):
            known = dict(zip(kept.labels[k, n].tolist(), kept.values[k, n].tolist(), strict=True))
            share = kept.rest[k, n] / (classes - len(known)) if classes > len(known) else 0.0
            out[k, n] = [known.get(label, share) for label in range(classes)]
    return out


def test_the_twenty_most_probable_labels_are_kept_and_of_equal_ones_the_first() -> None:
    """Labels 25, 3 and 28 lead; of the others, which are equal, the 17 with the lowest numbers follow."""
    probabilities = np.full((1, 1, 30), 0.01)
    probabilities[0, 0, [25, 3, 28]] = 0.4, 0.2, 0.13
    kept = LabelProbabilities.of(probabilities)
    assert kept.labels[0, 0].tolist() == [25, 3, 28, *(n for n in range(18) if n != 3)]
    assert kept.labels.dtype == np.uint8
    assert kept.values[0, 0, :4].tolist() == [0.4, 0.2, 0.13, 0.01]
    assert kept.rest[0, 0] == pytest.approx(10 * 0.01)
    assert kept.dense() == pytest.approx(probabilities)


def test_of_labels_that_are_all_equal_the_first_is_predicted() -> None:
    kept = LabelProbabilities.of(np.full((1, 2, 40), 1 / 40))
    assert kept.labels[0, 1].tolist() == list(range(20))
    assert kept.predicted.tolist() == [[0, 0]]


def test_ties_at_the_last_place_go_to_the_first_labels() -> None:
    """The probabilities have four values, so that in every row several labels are equal at the twentieth place."""
    probabilities = np.random.default_rng(2).integers(1, 5, (2, 100, CLASSES)) / 100
    kept = LabelProbabilities.of(probabilities)
    np.testing.assert_array_equal(kept.labels, np.argsort(-probabilities, axis=-1, kind="stable")[..., :TOP])


@pytest.mark.parametrize("classes", [2, 20])
def test_all_of_at_most_twenty_labels_are_kept(classes: int) -> None:
    probabilities = drawn(classes=classes)
    kept = LabelProbabilities.of(probabilities)
    assert kept.values is probabilities
    assert not kept.rest.any()
    np.testing.assert_array_equal(kept.dense(), probabilities)


def test_the_labels_that_are_not_kept_share_what_is_left() -> None:
    kept = LabelProbabilities(np.array([[[4, 1]]]), np.array([[[0.5, 0.2]]]), np.array([[0.3]]), 5)
    assert kept.dense()[0, 0].tolist() == pytest.approx([0.1, 0.2, 0.1, 0.1, 0.5])
    assert [kept.of_label(np.array([label])).item() for label in (4, 1, 3)] == pytest.approx([0.5, 0.2, 0.1])
    others = 0.2**2 + 2 * 0.1**2
    assert kept.squared_error(np.array([4])).item() == pytest.approx(0.5**2 + others + 0.1**2)
    assert kept.squared_error(np.array([3])).item() == pytest.approx(0.5**2 + others + 0.9**2)


@pytest.mark.parametrize("classes", [7, TOP, TOP + 1, CLASSES])
@pytest.mark.parametrize("chunk", [1, 4_000_000])
def test_every_number_is_that_of_the_probabilities_of_all_labels(
    classes: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_probabilities, "CHUNK", chunk)
    kept = LabelProbabilities.of(drawn(60, classes))
    whole, rows = read(kept), np.arange(60)
    gold = np.random.default_rng(1).integers(0, classes, 60)
    np.testing.assert_array_equal(kept.predicted, whole.argmax(-1))
    np.testing.assert_array_equal(kept.confidence, whole.max(-1))
    np.testing.assert_allclose(kept.of_label(gold), whole[:, rows, gold])
    np.testing.assert_allclose(kept.squared_error(gold), ((whole - np.eye(classes)[gold]) ** 2).sum(-1))
    for temperature in (0.4, 1.0, 3.0):
        np.testing.assert_allclose(
            read(kept.at_temperature(temperature)), softmax(np.log(whole) / temperature, axis=-1), atol=1e-12
        )
    mean = kept.combined(lambda seeds: seeds.mean(0))
    np.testing.assert_array_equal(mean.predicted, whole.mean(0, keepdims=True).argmax(-1))
    np.testing.assert_allclose(mean.confidence, whole.mean(0, keepdims=True).max(-1))


def test_the_label_with_the_highest_mean_may_be_outside_the_labels_that_a_seed_keeps() -> None:
    """The first seed is certain of label 0 or 1; the second gives label 29 the most, which the first does not keep."""
    first, second = np.full(30, 0.001), np.full(30, 0.01)
    first[:2], second[29] = 0.45, 0.7
    probabilities = np.stack([first / first.sum(), second / second.sum()])[:, None]
    mean = LabelProbabilities.of(probabilities).combined(lambda seeds: seeds.mean(0))
    assert mean.predicted.item() == probabilities.mean(0).argmax() == 29


def test_rows_and_seeds_are_taken_out_and_joined() -> None:
    kept = LabelProbabilities.of(drawn(10))
    halves = [kept.rows(slice(5, 10)), kept.rows(np.arange(5))]
    joined = LabelProbabilities.concatenate([each.seed(1) for each in halves], axis=1)
    order = [*range(5, 10), *range(5)]
    np.testing.assert_array_equal(joined.values, kept.values[1:, order])
    np.testing.assert_array_equal(joined.labels, kept.labels[1:, order])
    assert joined.shape == (1, 10, CLASSES)


@pytest.mark.parametrize("place", [0, 29])
def test_probabilities_that_are_not_finite_are_seen(place: int) -> None:
    """A partition sorts NaN behind all other labels, so that it may not be among those that are kept."""
    probabilities = drawn(4, 30)
    probabilities[1, 2, place] = np.nan
    kept = LabelProbabilities.of(probabilities)
    assert not np.isfinite(kept.values[1, 2]).all() or not np.isfinite(kept.rest[1, 2])
