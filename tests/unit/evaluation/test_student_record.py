"""Teacher of a student: the ensemble, or the best system that learns."""

from __future__ import annotations

import pytest

from epigram.core.errors import ParameterError
from epigram.evaluation.ensemble_record import EnsembleRecord, Member
from epigram.evaluation.results import Metrics
from epigram.evaluation.student_record import teacher_of
from tests.support.evaluation_samples import cost, system

NONE = EnsembleRecord(reason="one system alone has the lowest log loss on the development set")


def metrics(name: str, wrong_on_dev: int, wrong_on_test: int, parameters: int = 10) -> Metrics:
    price = cost(parameters=parameters)
    return system(name, [set(range(wrong_on_dev))], [set(range(wrong_on_test))], price=price).metrics


def test_the_ensemble_teaches_if_there_is_one() -> None:
    members = [Member(system="good", weights=[1.0], worth=0.0, flops=1.0)]
    assert teacher_of(EnsembleRecord(members=members), [metrics("good", 0, 0)]) == "ensemble"


def test_without_an_ensemble_the_best_system_on_dev_teaches_though_another_is_better_on_test() -> None:
    assert teacher_of(NONE, [metrics("test_best", 9, 0), metrics("dev_best", 2, 30)]) == "dev_best"


def test_of_equal_systems_the_smaller_one_teaches() -> None:
    assert teacher_of(NONE, [metrics("large", 3, 3, 2_000), metrics("small", 3, 3, 1_000)]) == "small"


def test_a_system_that_does_not_learn_cannot_teach() -> None:
    assert teacher_of(NONE, [metrics("lucky", 0, 0, 0), metrics("fair", 5, 5)]) == "fair"
    with pytest.raises(ParameterError, match="none of them learns"):
        teacher_of(NONE, [metrics("lucky", 0, 0, 0)])
