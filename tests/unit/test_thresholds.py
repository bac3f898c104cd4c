"""The thresholds above which a text has a label."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

from pithy.training.thresholds import tuned_thresholds


def test_the_best_f1_of_every_label_is_found() -> None:
    generator = np.random.default_rng(2)
    gold = generator.random((200, 3)) < [0.1, 0.4, 0.7]
    chances = np.round(np.clip(0.3 * gold + generator.random((200, 3)) * 0.5, 0, 1), 2)  # with ties
    cuts = tuned_thresholds(gold, chances)
    for c in range(3):
        reached = sklearn.f1_score(gold[:, c], chances[:, c] > cuts[c])
        assert reached == pytest.approx(max(sklearn.f1_score(gold[:, c], chances[:, c] > t) for t in chances[:, c]))


def test_a_label_without_a_gold_row_keeps_the_middle() -> None:
    assert tuned_thresholds(np.zeros((4, 1), bool), np.array([[0.1], [0.2], [0.6], [0.9]])) == 0.5


def test_thresholds_of_single_precision_part_what_they_parted_before_they_were_written_down() -> None:
    generator = np.random.default_rng(0)
    gold, chances = generator.random((500, 4)) < 0.4, generator.random((500, 4), dtype=np.float32)
    cuts = tuned_thresholds(gold, chances)
    again = np.array(cuts.tolist(), np.float32)  # as config.json keeps them
    np.testing.assert_array_equal(chances > again, chances > cuts)
