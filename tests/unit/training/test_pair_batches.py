"""Tests of the batches of pairs: which texts are together, and what each pair counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epigram.training.objectives.contrastive import label_groups, pair_batches, pair_weights


def batches(groups: Any, size: int = 8, seed: int = 0) -> list[list[int]]:
    return [rows.tolist() for rows in pair_batches(np.array(groups), size, np.random.default_rng(seed))]


def kinds(groups: Any, rows: list[int]) -> tuple[int, int]:
    """Return how many pairs of a batch are of one group, and of two."""
    pairs = [(a, b) for place, a in enumerate(rows) for b in rows[place + 1 :]]
    same = sum(groups[a] == groups[b] for a, b in pairs)
    return same, len(pairs) - same


def test_texts_of_equal_labels_are_a_group() -> None:
    assert label_groups(np.array([7, 2, 7, 5])).tolist() == [2, 0, 2, 1]


def test_texts_of_several_labels_are_a_group_if_all_their_labels_are_equal() -> None:
    labels = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0]], np.uint8)
    first, one, same, none, also_none = label_groups(labels).tolist()
    assert first == same
    assert none == also_none
    assert len({first, one, none}) == 3


@pytest.mark.parametrize(
    "groups", [[0, 1] * 20, [0] * 21 + [1] * 7 + [2] * 5, list(range(14)) * 7, [0] * 60 + [1] * 3, [0] * 50 + [1]]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_epoch_has_every_text_in_small_batches_of_distinct_texts(groups: list[int], seed: int) -> None:
    found = batches(groups, seed=seed)
    assert {row for rows in found for row in rows} == set(range(len(groups)))
    assert all(len(set(rows)) == len(rows) <= 8 for rows in found)


@pytest.mark.parametrize("groups", [[0] * 60 + [1] * 3, [0] * 57 + [1], [0, 1] * 20, list(range(14)) * 7])
def test_every_batch_has_pairs_of_both_kinds(groups: list[int]) -> None:
    assert all(min(kinds(groups, rows)) > 0 for seed in range(20) for rows in batches(groups, seed=seed))


@pytest.mark.parametrize("groups", [list(range(14)) * 7, [0] * 30 + [1] * 9 + [2] * 3])
def test_every_text_has_another_one_of_its_group_in_each_batch(groups: list[int]) -> None:
    for rows in batches(groups):
        there = [groups[row] for row in rows]
        assert min(there.count(group) for group in there) >= 2


def test_the_couples_of_a_group_are_spread_over_all_batches() -> None:
    groups = [0] * 64 + [1] * 32 + [2] * 32
    shares = {tuple(np.bincount([groups[row] for row in rows], minlength=3).tolist()) for rows in batches(groups, 16)}
    assert shares == {(8, 4, 4)}


def test_the_only_text_of_a_label_has_pairs_of_different_labels_only() -> None:
    groups = [0, 0, 0, 0, 1]
    [rows] = [rows for rows in batches(groups) if 4 in rows]
    assert rows.count(4) == 1
    assert pair_weights(np.array([groups[row] for row in rows]))[:, rows.index(4)].any() or rows.index(4) == 0
    assert kinds(groups, rows)[1] >= 4


def test_texts_of_one_label_have_pairs_of_one_kind_only() -> None:
    assert sorted(map(len, batches([0] * 20))) == [6, 6, 8]
    assert [len(rows) for rows in batches([0])] == [1]


def test_a_batch_has_four_texts_at_least() -> None:
    assert [len(rows) for rows in batches([0, 1] * 20, size=1)] == [4] * 10


def test_groups_meet_in_batches_of_other_epochs() -> None:
    """With one couple a group and batches of two couples, all 15 meetings of six groups occur sooner or later."""
    groups, order = np.repeat(np.arange(6), 2), np.random.default_rng(0)
    epochs = [pair_batches(groups, 4, order) for _ in range(60)]
    met = {tuple(sorted(set(groups[rows].tolist()))) for batches_ in epochs for rows in batches_}
    assert len(met) == 15


def test_texts_meet_other_texts_of_their_group_in_other_epochs() -> None:
    groups, order = np.repeat(np.arange(2), 4), np.random.default_rng(0)
    couples = set[tuple[int, ...]]()
    for _ in range(60):
        for rows in pair_batches(groups, 4, order):
            couples |= {tuple(sorted(rows[groups[rows] == group].tolist())) for group in (0, 1)}
    assert len(couples) == 2 * 6


def test_the_number_of_batches_is_that_of_every_epoch() -> None:
    groups, order = np.array([0] * 31 + [1] * 6 + [2] * 3), np.random.default_rng(0)
    lengths = [len(pair_batches(groups, 8, order)) for _ in range(9)]
    assert all(first == second for first, second in pairwise(lengths))


def test_the_seed_draws_the_batches() -> None:
    groups = [0, 1, 2] * 20
    assert batches(groups) == batches(groups)
    assert batches(groups) != batches(groups, seed=1)


def weights(groups: list[int]) -> NDArray[np.float32]:
    return pair_weights(np.array(groups))


def test_each_kind_of_pair_has_half_of_the_weight() -> None:
    # of the six pairs two are of one group
    np.testing.assert_allclose(
        weights([0, 0, 1, 1]), [[0, 1 / 4, 1 / 8, 1 / 8], [0, 0, 1 / 8, 1 / 8], [0, 0, 0, 1 / 4], [0, 0, 0, 0]]
    )


def test_a_kind_without_pairs_leaves_all_of_the_weight_to_the_other() -> None:
    np.testing.assert_allclose(weights([3, 3]), [[0, 1], [0, 0]])
    np.testing.assert_allclose(weights([3, 4, 5]), np.triu(np.ones((3, 3)), 1) / 3)
    np.testing.assert_allclose(weights([3]), [[0]])
