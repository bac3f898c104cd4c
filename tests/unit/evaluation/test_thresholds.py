"""Tests of the probability thresholds of multi-label classification."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

from epigram.evaluation.tuning.thresholds import tuned_thresholds


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Return gold labels and rounded, tied probabilities: three labels on different scales and a rare fourth."""
    generator = np.random.default_rng(2)
    gold = generator.random((400, 4)) < [0.1, 0.4, 0.7, 0.005]
    chances = np.clip(0.3 * gold + generator.random((400, 4)) * 0.5, 0, 1) * [0.3, 0.6, 1.0, 1.0]
    return gold, np.round(chances, 2)


def micro_f1(gold: np.ndarray, chances: np.ndarray, cuts: np.ndarray | float) -> float:
    return float(sklearn.f1_score(gold, chances > cuts, average="micro", zero_division=0))


def test_no_threshold_of_a_frequent_label_can_move_and_raise_micro_f1() -> None:
    gold, chances = drawn()
    cuts = tuned_thresholds(gold, chances)
    reached = micro_f1(gold, chances, cuts)
    for c in range(3):
        for other in np.unique(chances[:, c]):
            moved = cuts.copy()
            moved[c] = other
            assert micro_f1(gold, chances, moved) <= reached + 1e-9
    assert reached > max(micro_f1(gold, chances, t) for t in np.unique(chances)) + 0.03


def test_a_rare_label_takes_the_best_threshold_of_all_labels_together() -> None:
    gold, chances = drawn()
    together = max(micro_f1(gold, chances, t) for t in np.unique(chances))
    assert gold[:, 3].sum() == 2
    assert micro_f1(gold, chances, tuned_thresholds(gold, chances)[3]) == pytest.approx(together)


def test_a_label_whose_probabilities_are_neighbours_is_told_apart() -> None:
    gold = np.arange(60)[:, None] < 30
    for upper in (np.float32(1.0), np.float32(0.3)):
        chances = np.where(gold, upper, np.nextafter(upper, np.float32(0)))
        cuts = np.array(tuned_thresholds(gold, chances).tolist(), np.float32)  # the values in config.json
        np.testing.assert_array_equal(chances > cuts, gold)


def test_no_gold_row_leaves_the_middle() -> None:
    assert tuned_thresholds(np.zeros((4, 1), bool), np.array([[0.1], [0.2], [0.6], [0.9]])) == 0.5


def test_thresholds_of_single_precision_part_what_they_parted_before_they_were_written_down() -> None:
    generator = np.random.default_rng(0)
    gold, chances = generator.random((500, 4)) < 0.4, generator.random((500, 4), dtype=np.float32)
    cuts = tuned_thresholds(gold, chances)
    again = np.array(cuts.tolist(), np.float32)  # the values in config.json
    np.testing.assert_array_equal(chances > again, chances > cuts)
