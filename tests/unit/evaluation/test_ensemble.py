"""Tests of ensemble selection: known weights, rows that do not judge themselves, and members that only look good."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from epigram.core.sampling import choose_rows
from epigram.evaluation.ensemble.weights import Blend, cross_fit, fit_blend, parts_of, select
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.tuning import temperature

SETTINGS = EnsembleSettings()


def gold_of(labels: np.ndarray, classes: int) -> np.ndarray:
    return labels[:, None] == np.arange(classes)


def fitted(members: np.ndarray, gold: np.ndarray, rounds: int = 20, *, multi: bool = False) -> Blend:
    return fit_blend([*members], gold if multi else gold.argmax(1), np.arange(len(gold)), rounds)


def cross_fitted(members: np.ndarray, gold: np.ndarray, usable: np.ndarray, *, multi: bool = False) -> np.ndarray:
    labels = gold if multi else gold.argmax(1)
    return cross_fit([*members], labels, parts_of(labels, SETTINGS.parts), usable, SETTINGS.rounds)


def selected(likelihoods: np.ndarray, rounds: int = 20) -> list[float]:
    return select(likelihoods, rounds).tolist()


def noisy(gold: np.ndarray, right: float, draw: np.random.Generator) -> np.ndarray:
    """Return calibrated probabilities (N, C) of a member that is right with probability `right`."""
    rows, classes = gold.shape
    other = (gold.argmax(1) + draw.integers(1, classes, rows)) % classes
    said = np.where(draw.random(rows) < right, gold.argmax(1), other)
    return np.where(gold_of(said, classes), right, (1 - right) / (classes - 1))


def test_the_weights_are_those_of_an_exhaustive_search() -> None:
    """Of all weights in twentieths, those that are found have the lowest log loss, up to the greedy steps."""
    draw = np.random.default_rng(0)
    likelihoods = draw.uniform(0.05, 1.0, (3, 40))
    shares = [np.array(w) / 20 for w in product(range(21), repeat=3) if sum(w) == 20]
    losses = [-np.log(share @ likelihoods).mean() for share in shares]
    found = -np.log(selected(likelihoods) @ likelihoods).mean()
    assert found <= min(losses) + 2e-3
    assert found < min(-np.log(likelihoods).mean(1)) - 0.05  # one member alone is clearly worse


def test_a_member_that_is_better_everywhere_gets_all_weight_and_of_equal_ones_the_first() -> None:
    likelihoods = np.array([[0.5, 0.6], [0.9, 0.8], [0.9, 0.8], [0.2, 0.9]])
    assert selected(likelihoods[:3]) == [0.0, 1.0, 0.0]
    assert selected(likelihoods[1:3]) == [1.0, 0.0]


def test_members_that_are_right_where_the_other_is_wrong_share_the_weight() -> None:
    likelihoods = np.array([[0.9, 0.1, 0.9, 0.1], [0.1, 0.9, 0.1, 0.9]])
    assert selected(likelihoods) == [0.5, 0.5]
    assert sorted(selected(likelihoods, 1)) == [0.0, 1.0]
    assert selected(likelihoods, 3) == [0.5, 0.5]  # the third addition makes it worse


def test_a_blend_is_the_weighted_mean_with_a_temperature() -> None:
    probabilities = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    blend = Blend(np.array([0.25, 0.75]), 2.0)
    mean = np.array([0.6, 0.4])
    np.testing.assert_allclose(blend.apply(probabilities, multi=False)[0], mean**0.5 / (mean**0.5).sum())
    odds = (mean / (1 - mean)) ** 0.5
    np.testing.assert_allclose(blend.apply(probabilities, multi=True)[0], odds / (1 + odds))


def test_labels_that_a_text_does_not_have_count_where_it_may_have_several() -> None:
    gold = np.arange(12)[:, None] % 3 == np.arange(3)
    members = np.stack([np.where(gold, 0.9, 0.6), np.where(gold, 0.8, 0.1)])
    assert fitted(members, gold, multi=True).weights.tolist() == [0.0, 1.0]


def test_the_mean_of_members_that_err_apart_is_sharpened() -> None:
    """The mean of two independent members is less confident than it could be: its temperature is below 1."""
    draw = np.random.default_rng(1)
    gold = gold_of(draw.integers(0, 3, 3_000), 3)
    members = np.stack([noisy(gold, 0.8, draw) for _ in range(3)])
    blend = fitted(members, gold)
    assert blend.temperature < 0.8
    accuracies = (members.argmax(2) == gold.argmax(1)).mean(1)
    assert (blend.apply(members, multi=False).argmax(1) == gold.argmax(1)).mean() > accuracies.max() + 0.05


@pytest.mark.parametrize("multi", [False, True])
def test_no_row_judges_the_weights_that_predict_it(multi: bool) -> None:
    """Another label of a row changes the predictions of other parts only."""
    draw = np.random.default_rng(2)
    gold = gold_of(np.arange(60) % 3, 3)
    members = np.stack([noisy(gold, share, draw) for share in (0.6, 0.7, 0.65)])
    usable, part = np.ones(60, np.bool_), parts_of(gold if multi else gold.argmax(1), 5)
    before = cross_fitted(members, gold, usable, multi=multi)
    changed = gold.copy()
    row = 7
    changed[row] = ~gold[row] if multi else np.roll(gold[row], 1)
    if not multi:
        usable[row] = False  # a single label also moves rows between parts, so the row is left out instead
        changed = gold
    after = cross_fitted(members, changed, usable, multi=multi)
    own = part == part[row]
    assert (after[own] == before[own]).all()
    assert (after[~own] != before[~own]).any()


def test_parts_are_of_equal_size_and_stratified() -> None:
    labels = np.array([0] * 10 + [1] * 5 + [2] * 5)
    part = parts_of(labels, 5)
    assert np.bincount(part).tolist() == [4] * 5
    for label, each in ((0, 2), (1, 1), (2, 1)):
        assert np.bincount(part[labels == label], minlength=5).tolist() == [each] * 5
    assert len(set(parts_of(gold_of(labels[:3], 3), 5).tolist())) == 3


def test_rows_of_a_group_are_in_one_part() -> None:
    """Ten groups of two rows each, and five of one; the first row of a group has its label."""
    labels, groups = np.arange(25) % 2, np.array([*range(15), *range(9, -1, -1)])
    part = parts_of(labels, 5, groups)
    assert all(len(set(part[groups == group].tolist())) == 1 for group in range(15))
    of_groups = part[:15]
    assert np.bincount(of_groups).tolist() == [3] * 5
    assert (of_groups == parts_of(labels[:15], 5)).all()
    assert parts_of(labels, 5, np.zeros(25, np.int64)).tolist() == [0] * 25
    several = parts_of(gold_of(labels, 2), 5, groups)
    assert several.tolist() == (groups % 5).tolist()


def test_parts_are_stratified_where_texts_repeat() -> None:
    """The labels alternate as the parts would: without strata, each part would have one label."""
    labels, groups = np.tile(np.arange(20) % 2, 2), np.tile(np.arange(20), 2)
    part = parts_of(labels, 2, groups)
    for label in (0, 1):
        assert np.bincount(part[labels == label]).tolist() == [10, 10]


def test_the_copy_of_a_row_does_not_judge_the_weights_that_predict_it() -> None:
    """Rows 0 to 29 are repeated: another label of a copy changes nothing in the part of its row."""
    draw = np.random.default_rng(6)
    gold, groups = gold_of(np.arange(60) % 3, 3), np.arange(60) % 30
    members = np.stack([noisy(gold, share, draw) for share in (0.6, 0.7, 0.65)])
    part = parts_of(gold.argmax(1), 5, groups)
    usable, row, copy = np.ones(60, np.bool_), 7, 37
    before, after = (
        cross_fit([*members], changed.argmax(1), part, usable, SETTINGS.rounds)
        for changed in (gold, np.where(np.arange(60)[:, None] == copy, np.roll(gold, 1, axis=1), gold))
    )
    same = (before == after).all(1)
    assert same[part == part[row]].all() and not same.all()


def test_a_row_that_is_not_usable_does_not_choose() -> None:
    """A member that has memorized the rows that are also in train is right on them and random elsewhere."""
    draw = np.random.default_rng(3)
    gold = gold_of(draw.integers(0, 2, 200), 2)
    leaked = np.arange(200) < 120
    memory = np.where(leaked[:, None], np.where(gold, 0.99, 0.01), noisy(gold, 0.5, draw))
    members = np.stack([memory, noisy(gold, 0.75, draw)])
    assert fitted(members, gold).weights[0] > 0.5
    assert fitted(members[:, ~leaked], gold[~leaked]).weights.tolist() == [0.0, 1.0]
    scored = cross_fitted(members, gold, ~leaked)
    np.testing.assert_array_equal(scored.argmax(1), members[1].argmax(1))


def test_the_cross_fitted_score_is_not_raised_by_many_random_members() -> None:
    """On their own rows, weights among 300 random members beat the one that has learned; cross-fitted, they do not."""
    draw = np.random.default_rng(4)
    gold = gold_of(draw.integers(0, 2, 40), 2)
    members = np.stack([noisy(gold, 0.7, draw), *(draw.beta(0.5, 0.5, (300, 40, 1)) * [1, -1] + [0, 1])])
    alone = float((members[0].argmax(1) == gold.argmax(1)).mean())
    own = fitted(members, gold).apply(members, multi=False)
    scored = cross_fitted(members, gold, np.ones(40, np.bool_))
    assert (own.argmax(1) == gold.argmax(1)).mean() > alone + 0.1
    assert (scored.argmax(1) == gold.argmax(1)).mean() < alone


def test_without_usable_rows_the_weights_are_equal() -> None:
    gold = gold_of(np.arange(4) % 2, 2)
    blend = fitted(np.full((4, 0, 2), 0.5), gold[:0])
    assert (blend.weights.tolist(), blend.temperature) == ([0.25] * 4, 1.0)


@pytest.mark.parametrize("multi", [False, True])
def test_the_temperature_of_many_rows_is_that_of_the_chosen_ones(multi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 90 rows, 30 random ones decide: on these, both members are right, on the others they are wrong."""
    monkeypatch.setattr(temperature, "MAX_ROWS", 30)
    gold = gold_of(np.arange(90) % 3, 3)
    decisive = np.isin(np.arange(90), choose_rows(90, 30))
    said = np.where(decisive[:, None], gold, np.roll(gold, 1, axis=1))
    members = np.stack([np.where(said, 0.6, 0.2)] * 2)
    assert fitted(members, gold, multi=multi).temperature < 0.5
    assert fitted(members[:, 1:], gold[1:], multi=multi).temperature > 2
