"""Tests of the ensemble of word labels: known weights and means, and words that a member did not read."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.core.ragged import Ragged
from epigram.evaluation.averaged_words import at_temperature, weighted_mean
from epigram.evaluation.ensemble import Blend, cross_fit, fit_blend, parts_of
from epigram.evaluation.label_probabilities import LabelProbabilities
from epigram.evaluation.member_outputs import Gold, MemberOutputs
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.word_predictions import most_likely

ROWS, WORDS, LABELS = 60, 5, 3
DRAW = np.random.default_rng(0)
TEXT_GOLD = np.arange(ROWS) % 2
WORD_GOLD = DRAW.integers(0, LABELS, ROWS * WORDS)
FLAT = np.full((ROWS, 2), 0.5)  # texts of which a member knows nothing


def words_of(right: np.ndarray, sure: float = 0.8) -> np.ndarray:
    """Return probabilities (T, S): `sure` for the gold label of the words that are `right` (T,), else for the next."""
    said = np.where(right, WORD_GOLD, (WORD_GOLD + 1) % LABELS)
    return np.where(said[:, None] == np.arange(LABELS), sure, (1 - sure) / (LABELS - 1))


def outputs(texts: list[np.ndarray], words: list[np.ndarray]) -> MemberOutputs:
    rows = Ragged.from_lengths(np.stack(words, axis=1), np.full(ROWS, WORDS))
    return MemberOutputs(LabelProbabilities.of(np.stack(texts)), rows)


def gold(*, words_only: bool) -> Gold:
    return Gold(TEXT_GOLD, Ragged.from_lengths(WORD_GOLD, np.full(ROWS, WORDS)), words_only)


def accuracy(words: np.ndarray) -> float:
    return float((most_likely(words) == WORD_GOLD).mean())


NUMBERS = np.arange(ROWS * WORDS)
THIRDS = [words_of((NUMBERS + place) % 3 > 0) for place in range(3)]  # each is wrong on another third of the words


def test_members_that_err_on_different_words_are_right_together() -> None:
    members = outputs([FLAT] * 3, THIRDS)
    blend = fit_blend(members, gold(words_only=True), 20)
    assert blend.weights.min() > 0.25
    assert blend.word_temperature < 0.8, "their mean is less confident than it could be"
    found = blend.combine(members).words
    assert found is not None
    assert [accuracy(each) for each in THIRDS] == [pytest.approx(2 / 3)] * 3
    assert accuracy(found.values[:, 0]) == 1.0


def test_the_mean_leaves_out_members_that_did_not_read_a_word_and_has_a_temperature() -> None:
    words = DRAW.dirichlet(np.ones(LABELS), (6, 2)).astype(np.float16)  # (T, M, S)
    words[1, 0] = words[2, 1] = words[3] = 0
    weights, temperature = np.array([0.25, 0.75]), 0.5
    expected = np.zeros((6, LABELS))
    for n, word in enumerate(words.astype(np.float64)):
        share = sum(weight for weight, each in zip(weights, word, strict=True) if each.sum())
        if share:
            mean = sum(weight * each for weight, each in zip(weights, word, strict=True)) / share
            expected[n] = mean ** (1 / temperature) / (mean ** (1 / temperature)).sum()
    found = Blend(weights, 1.0, temperature).apply_to_words(words)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert most_likely(found)[3] == 0, "nobody read it: the default label"
    np.testing.assert_allclose(weighted_mean(words, weights).sum(-1), [1, 1, 1, 0, 1, 1], atol=1e-3)
    assert not found[3].any()


def test_a_temperature_divides_the_logits_and_small_probabilities_do_not_vanish() -> None:
    logits = DRAW.normal(size=(4, 300))
    known = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for temperature in (0.01, 0.5, 3.0):
        scaled = np.exp((logits - logits.max(1, keepdims=True)) / temperature)
        expected = scaled / scaled.sum(1, keepdims=True)
        np.testing.assert_allclose(at_temperature(known, temperature), expected, rtol=1e-5, atol=1e-5)


def test_a_probability_that_half_precision_loses_is_small_and_not_impossible() -> None:
    """Label 1 has 1e-9, which is 0 in half precision: a temperature of 5 makes 1e-7 of it 0.04."""
    stored = np.array([[1.0, 1e-9], [0.0, 0.0]]).astype(np.float16)
    found = at_temperature(stored.astype(float), 5.0)
    small = 1e-7**0.2
    np.testing.assert_allclose(found, [[1 / (1 + small), small / (1 + small)], [0.0, 0.0]], rtol=1e-6)


def test_the_labels_of_texts_choose_the_weights_unless_only_words_have_labels() -> None:
    """The first member knows the texts, the second one the words."""
    knows = np.where(TEXT_GOLD[:, None] == np.arange(2), 0.9, 0.1)
    flat = np.full((ROWS * WORDS, LABELS), 1 / LABELS)
    members = outputs([knows, FLAT], [flat, words_of(NUMBERS >= 0, 0.65)])
    assert fit_blend(members, gold(words_only=True), 20).weights.tolist() == [0.0, 1.0]
    assert fit_blend(members, gold(words_only=False), 20).weights.tolist() == [1.0, 0.0]


MOST = np.arange(ROWS) % 5 > 1


def test_a_member_without_word_labels_changes_no_words() -> None:
    some, rest = (np.where(known[:, None], np.eye(2)[TEXT_GOLD] * 0.8 + 0.1, 0.5) for known in (MOST, ~MOST))
    members = outputs([some, rest], [np.zeros((ROWS * WORDS, LABELS)), THIRDS[0]])
    blend = fit_blend(members, gold(words_only=False), 20)
    assert blend.weights[0] > blend.weights[1] > 0
    found = blend.combine(members).words
    assert found is not None
    np.testing.assert_array_equal(most_likely(found.values[:, 0]), most_likely(THIRDS[0]))


def test_overconfident_word_probabilities_are_calibrated_before_they_are_averaged() -> None:
    """A member that is right on two words in three is as good whether it says 0.99 or 0.67."""
    sure, modest = outputs([FLAT], [words_of(NUMBERS % 3 != 0, 0.99)]), outputs([FLAT], [words_of(NUMBERS % 3 != 0)])
    for members in (sure, modest):
        (temperature,) = members.word_temperatures(gold(words_only=True))
        calibrated = members.calibrated([temperature]).words
        assert calibrated is not None
        assert calibrated.values.max(-1).mean() == pytest.approx(2 / 3, abs=0.01)
    assert outputs([FLAT], [np.zeros_like(THIRDS[0])]).word_temperatures(gold(words_only=True)) == [1.0]


def test_no_row_judges_the_weights_that_label_its_words() -> None:
    """If the labels of a row's words change, only the words of other parts get other probabilities."""
    members = outputs([FLAT] * 2, [words_of(DRAW.random(ROWS * WORDS) < 0.7) for _ in range(2)])
    truth, usable, settings = gold(words_only=True), np.ones(ROWS, np.bool_), EnsembleSettings()
    part = parts_of(TEXT_GOLD, settings.parts)
    before = cross_fit(members, truth, part, usable, settings.rounds).words
    row, changed = 7, WORD_GOLD.copy()
    changed[row * WORDS : (row + 1) * WORDS] = (changed[row * WORDS : (row + 1) * WORDS] + 1) % LABELS
    other = Gold(TEXT_GOLD, Ragged.from_lengths(changed, np.full(ROWS, WORDS)), words_only=True)
    after = cross_fit(members, other, part, usable, settings.rounds).words
    assert before is not None
    assert after is not None
    same = np.array([(a == b).all() for a, b in zip(before, after, strict=True)])
    assert same[part == part[row]].all()
    assert not same[part != part[row]].all()


def test_rows_without_words_keep_their_place() -> None:
    lengths = np.arange(ROWS) % 3
    words = THIRDS[0][: lengths.sum(), None]
    members = MemberOutputs(LabelProbabilities.of(FLAT[None]), Ragged.from_lengths(words, lengths))
    truth = Gold(TEXT_GOLD, Ragged.from_lengths(WORD_GOLD[: lengths.sum()], lengths), words_only=True)
    part = parts_of(TEXT_GOLD, 5)
    found = cross_fit(members, truth, part, np.ones(ROWS, np.bool_), 20).words
    assert found is not None
    np.testing.assert_array_equal(found.lengths, lengths)
    np.testing.assert_array_equal(most_likely(found.values[:, 0]), most_likely(words[:, 0]))


def test_without_words_the_weights_of_word_labels_are_equal() -> None:
    none = Ragged.from_lengths(np.zeros((0, 2, LABELS)), np.zeros(ROWS, np.int64))
    members = MemberOutputs(LabelProbabilities.of(np.stack([FLAT] * 2)), none)
    truth = Gold(TEXT_GOLD, Ragged.from_lengths(WORD_GOLD[:0], np.zeros(ROWS, np.int64)), words_only=True)
    blend = fit_blend(members, truth, 20)
    assert (blend.weights.tolist(), blend.word_temperature) == ([0.5, 0.5], 1.0)
