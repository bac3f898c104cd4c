"""Tests of the plan that a training without dev follows."""

from __future__ import annotations

import pytest

from epigram.training.loop.plan import Course, Event, Plan, median_plan, plan_of_folds


def test_a_plan_keeps_its_share_of_the_steps() -> None:
    plan = Plan(30, 100, (Event(10, "decay"), Event(30, "drop", 1)))
    assert plan.scaled(125) == Plan(38, 125, (Event(12, "decay"), Event(38, "drop", 1)))
    assert plan.scaled(100) == plan


def test_a_plan_has_at_least_one_step_and_no_event_after_its_end() -> None:
    assert Plan(1, 100).scaled(10) == Plan(1, 10)
    assert Plan(3, 7, (Event(3, "drop"),)).scaled(2) == Plan(1, 2, (Event(1, "drop"),))
    assert Plan(3, 8, (Event(3, "decay"), Event(4, "decay"))).scaled(8) == Plan(3, 8, (Event(3, "decay"),))


def test_the_median_is_by_share_and_not_by_steps() -> None:
    early, middle, late = Plan(30, 100), Plan(20, 40), Plan(9, 10)
    assert median_plan([late, early, middle]) == middle
    assert median_plan([late, early, middle, Plan(1, 1)]) == middle, "of four the second"
    assert median_plan([late]) == late


def course(*scores: float, best: int = 10, events: tuple[Event, ...] = ()) -> Course:
    """Return a training of 40 planned steps with an evaluation every ten."""
    return Course(Plan(best, 40, events), {10 * n: score for n, score in enumerate(scores, start=1)})


@pytest.mark.parametrize(
    ("courses", "steps"),
    [
        # all folds fall by the same 0.1: the error of the difference is 0
        ([course(0.8, 0.7, 0.7, 0.7), course(0.6, 0.5, 0.5, 0.5)], 10),
        # the folds disagree: the mean falls by 0.05, with an error of 0.15
        ([course(0.8, 0.6, 0.6, 0.6), course(0.6, 0.7, 0.7, 0.7)], 40),
        # the mean falls by 0.15 with an error of 0.05, after an equally good second evaluation
        ([course(0.8, 0.8, 0.7, 0.6), course(0.6, 0.6, 0.4, 0.5)], 20),
        # two folds, of which one has ended after its second evaluation: the shorter of the two in the middle
        ([course(0.5, 0.6), course(0.5, 0.6, 0.7, 0.8)], 20),
        # one of three has ended: its last score counts
        ([course(0.5, 0.6), course(0.5, 0.6, 0.7, 0.8), course(0.5, 0.6, 0.7, 0.8)], 40),
        ([course(0.5, 0.6), course(0.5, 0.6, 0.4, 0.3), course(0.5, 0.6, 0.4, 0.3)], 20),
        # four folds: the mean falls by 0.1, with an error of 0.08 and a standard deviation of 0.16
        ([course(0.8, *[0.7] * 3), course(0.8, *[0.7] * 3), course(0.8, *[0.5] * 3), course(0.6, *[0.7] * 3)], 10),
        # one fold alone: the last of its best evaluations
        ([course(0.5, 0.7, 0.7, 0.6)], 30),
    ],
)
def test_the_plan_is_the_longest_one_within_a_standard_error_of_the_best(courses: list[Course], steps: int) -> None:
    assert plan_of_folds(courses) == Plan(steps, 40)


def test_the_decisions_are_those_of_the_fold_with_the_median_plan_until_the_end() -> None:
    events = Event(10, "decay"), Event(20, "drop", 1), Event(30, "decay")
    courses = [
        course(0.5, 0.6, 0.4, 0.4, best=10),
        course(0.5, 0.6, 0.4, 0.4, best=30, events=events),
        course(0.5, 0.6, 0.4, 0.4, best=40),
    ]
    assert plan_of_folds(courses) == Plan(20, 40, events[:2])


def test_decisions_after_the_best_evaluation_are_repeated_if_the_training_goes_on() -> None:
    """The best evaluation is the first; the scores after the decay are within the error of it."""
    events = Event(20, "decay"), Event(40, "decay")
    courses = [course(0.6, 0.5, 0.6, best=10, events=events), course(0.5, 0.6, 0.4, best=10, events=events)]
    assert plan_of_folds(courses) == Plan(30, 40, events[:1])


def test_a_plan_does_not_end_before_a_drop() -> None:
    """The scores fall with the depth, which the folds do not choose by their scores."""
    events = (Event(20, "drop", 1),)
    early, late = (course(0.9, 0.5, 0.5, 0.5, best=30, events=(Event(step, "drop", 1),)) for step in (20, 30))
    assert plan_of_folds([Course.of(each.plan, each.scores) for each in (early, early, late)]) == Plan(40, 40, events)
    assert Course.of(late.plan, late.scores).scores == {30: 0.5, 40: 0.5}
    for events in ((), (Event(30, "decay"),)):
        assert Course.of(Plan(10, 40, events), early.scores).scores == early.scores


def test_no_scores_are_compared_until_all_folds_have_their_final_depth() -> None:
    """Two folds keep their layers and are best at the start; the third drops one after 30 steps, and all fall then."""
    late = course(0.9, 0.5, 0.5, 0.3, best=30, events=(Event(30, "drop", 1),))
    found = plan_of_folds([Course.of(each.plan, each.scores) for each in (late, *[course(0.9, 0.5, 0.5, 0.3)] * 2)])
    assert found.steps == 30


def test_where_no_common_share_is_left_the_plan_ends_with_the_median_fold() -> None:
    """One fold drops a layer at the end, when the others have ended."""
    late = course(0.5, 0.5, 0.5, 0.5, best=40, events=(Event(40, "drop", 1),))
    ended = [course(0.5, 0.6, best=20)] * 2
    assert plan_of_folds([Course.of(each.plan, each.scores) for each in (late, *ended)]) == Plan(20, 40)


def test_folds_of_other_lengths_are_compared_by_their_shares() -> None:
    """Half of the steps is the best of both; the longer one evaluates after 24 of 44 steps."""
    shorter, longer = course(0.5, 0.9, 0.5, 0.5, best=20), Course(Plan(24, 44), {12: 0.5, 24: 0.9, 36: 0.5, 44: 0.5})
    share = plan_of_folds([shorter, longer]).share
    assert (shorter.nearest(share), longer.nearest(share)) == (20, 24)
