"""Tests of the Pareto front and of the three named choices."""

from __future__ import annotations

from dataclasses import replace

from epigram.evaluation.comparison.choices import pareto_front, three_choices
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus, Row
from tests.support.evaluation_samples import corpus, cost, system

ABOUT = {key: value for key, value in corpus().items() if key not in {"dev_in_train", "test_in_train"}}


def rows(**costs: tuple[float, float | None, float | None, str]) -> list[Row]:
    """Return rows with a development score, ms per text, MB and outcome for each name."""
    one = compare(Corpus(**ABOUT), [system("a", [{1}], [{1}], price=cost())], 0.05).rows[0]  # type: ignore[arg-type]
    return [
        replace(one, system=name, dev_score=score, ms_per_text=ms, megabytes=mb, outcome=outcome)
        for name, (score, ms, mb, outcome) in costs.items()
    ]


SYSTEMS = rows(
    slow=(0.95, 20.0, 90.0, "chosen"),
    fine=(0.94, 5.0, 90.0, "tie"),
    fast=(0.90, 0.3, 2.0, "worse"),
    dull=(0.89, 0.4, 2.0, "worse"),  # beaten by `fast`
    small=(0.93, 6.0, 10.0, "tie"),
    tiny=(0.60, 0.9, 0.1, "worse"),
)


def test_the_front_has_the_systems_that_no_other_beats() -> None:
    assert pareto_front(SYSTEMS) == {"slow", "fine", "fast", "small", "tiny"}


def test_equal_systems_are_both_on_the_front() -> None:
    assert pareto_front(rows(a=(0.9, 1.0, 1.0, "chosen"), b=(0.9, 1.0, 1.0, "tie"))) == {"a", "b"}


def test_what_was_not_measured_is_left_out() -> None:
    assert pareto_front(rows(a=(0.9, None, 1.0, "chosen"), b=(0.8, 1.0, 1.0, "tie"), c=(0.9, 1.0, None, "tie"))) == {
        "b"
    }
    assert three_choices(rows(a=(0.9, None, 1.0, "chosen"))) == []


def test_the_choices_are_the_best_the_best_fast_one_and_the_smallest_of_the_ties() -> None:
    assert [each.system for each in three_choices(SYSTEMS)] == ["slow", "fast", "small"]


def test_no_choice_is_slow_where_none_is_fast_and_the_baseline_without_parameters_is_none() -> None:
    found = rows(random=(0.5, 0.01, 0.01, "tie"), deep=(0.9, 3.0, 5.0, "chosen"))
    found[0] = replace(found[0], parameters=0)
    assert [(each.title, each.system) for each in three_choices(found)] == [
        ("best", "deep"),
        ("smallest of the best and its ties", "deep"),
    ]
