"""Tests of the ensemble of a run: rows that are also in train select nobody, and the worth of a member."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epigram.evaluation.build_ensemble import build
from epigram.evaluation.ensemble import cross_fit, parts_of
from epigram.evaluation.label_probabilities import LabelProbabilities
from epigram.evaluation.member_outputs import Gold, MemberOutputs
from epigram.evaluation.settings import EnsembleSettings
from tests.support.evaluation_samples import SETTINGS, split, system

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
        members = np.stack([each.predictions.dev_probabilities[0] for each in systems if each.metrics.system in names])
        outputs = MemberOutputs(LabelProbabilities.of(members))
        part = parts_of(dev.labels, settings.parts)
        found = cross_fit(outputs, Gold(dev.labels), part, ~dev.in_train, settings.rounds)
        fitted = LabelProbabilities.of(found.texts)
        return float((fitted.predicted[0] == dev.labels).mean())

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
    mean = np.mean([each.predictions.dev_probabilities[0] for each in systems], axis=0)
    np.testing.assert_allclose(found.evaluation.predictions.dev_probabilities[0], mean, atol=1e-6)
