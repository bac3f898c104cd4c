"""Tests of the plan that a training without dev follows."""

from __future__ import annotations

from epigram.training.plan import Event, Plan, median_plan


def test_a_plan_keeps_its_share_of_the_steps() -> None:
    plan = Plan(30, 100, (Event(10, "decay"), Event(30, "drop", 1)))
    assert plan.scaled(125) == Plan(38, 125, (Event(12, "decay"), Event(38, "drop", 1)))
    assert plan.scaled(100) == plan


def test_a_plan_has_at_least_one_step_and_no_event_after_its_end() -> None:
    assert Plan(1, 100).scaled(10) == Plan(1, 10)
    assert Plan(3, 7, (Event(3, "drop"),)).scaled(2) == Plan(1, 2, (Event(1, "drop"),))


def test_the_median_is_by_share_and_not_by_steps() -> None:
    early, middle, late = Plan(30, 100), Plan(20, 40), Plan(9, 10)
    assert median_plan([late, early, middle]) == middle
    assert median_plan([late, early, middle, Plan(1, 1)]) == middle, "of four the second"
    assert median_plan([late]) == late
