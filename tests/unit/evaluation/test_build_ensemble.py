"""Tests of the ensemble of a run: rows that are also in train select nobody, and the worth of a member."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epigram.evaluation.comparison.scored_system import check_same_rows, truth_of
from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.ensemble.weights import cross_fit, parts_of
from epigram.evaluation.settings import EnsembleSettings
from tests.support.evaluation_samples import SETTINGS, split, system, words

ROWS, LEAKED = 100, 60
MEMORY = set(range(LEAKED, ROWS, 2))  # right on all rows that are also in train, and on half of the others
WRONG = {
    "memory": MEMORY,
    "one": set(range(0, ROWS, 4)),
    "two": set(range(1, ROWS, 4)),
    "three": set(range(2, ROWS, 4)),
}


def test_the_rows_that_are_not_in_train_choose_and_the_worth_is_what_the_score_loses() -> None:
    systems = [system(name, [wrong], [wrong]) for name, wrong in WRONG.items()]
    dev = replace(split(ROWS, 2), in_train=np.arange(ROWS) < LEAKED)
    settings = EnsembleSettings()
    found = build(systems, [dev, split(ROWS, 2, first=ROWS)], settings, SETTINGS).record
    assert {member.system for member in found.members} == {"one", "two", "three"}

    def score(names: list[str]) -> float:
        members = [each.dev.probabilities[0] for each in systems if each.metrics.system in names]
        part = parts_of(dev.labels, settings.parts)
        found = cross_fit(members, dev.labels, part, ~dev.in_train, settings.rounds)
        return float((found.argmax(1) == dev.labels).mean())

    for member in found.members:
        others = [name for name in WRONG if name != member.system]
        assert member.worth == pytest.approx(score(list(WRONG)) - score(others))
    assert max(member.worth for member in found.members) > 0.1


def test_equal_texts_of_dev_are_in_one_part() -> None:
    """If all rows have one text, no other part chooses weights for it: they are equal, without a temperature."""
    systems = [system(name, [WRONG[name]], [WRONG[name]]) for name in ("one", "two", "three")]
    dev = replace(split(ROWS, 2), in_train=np.zeros(ROWS, np.bool_), groups=np.zeros(ROWS, np.int64))
    found = build(systems, [dev, split(ROWS, 2, first=ROWS)], EnsembleSettings(), SETTINGS)
    assert found.evaluation is not None
    mean = np.mean([each.dev.probabilities[0] for each in systems], axis=0)
    np.testing.assert_allclose(found.evaluation.dev.probabilities[0], mean, atol=1e-6)


def test_where_words_alone_have_labels_there_is_no_ensemble() -> None:
    """The labels of these texts are inferred from their words."""
    systems = [
        system(name, [wrong], [wrong], labelled=True, tokens_only=True, words_wrong=[{n}])
        for n, (name, wrong) in enumerate(WRONG.items())
    ]
    found = build(systems, [split(ROWS, 2), split(ROWS, 2, first=ROWS)], EnsembleSettings(), SETTINGS)
    assert found.evaluation is None
    assert found.record.reason.endswith("in these data only words have labels")


def test_where_texts_and_words_have_labels_the_ensemble_labels_texts_alone() -> None:
    """It is compared on the same words, with the F1 of the labels of texts other than the plain one."""
    labels = words(ROWS)
    systems = [
        system(name, [WRONG[name]], [WRONG[name]], labelled=True, words_wrong=[{n}])
        for n, name in enumerate(("one", "two", "three"))
    ]
    splits = [replace(split(ROWS, 2, first=first), words=labels) for first in (0, ROWS)]
    found = build(systems, splits, EnsembleSettings(), SETTINGS).evaluation
    assert found is not None
    assert (found.metrics.tokens, found.metrics.score, found.metrics.test_score.value) == (None, "accuracy", 1.0)
    assert found.metrics.sentence_f1 is not None and found.metrics.sentence_f1.value == 1.0
    assert found.test.words is not None and found.test.words.predictions is None
    check_same_rows([(each.metrics.system, truth_of(each)) for each in (*systems, found)])
