"""Plan of a training without dev: what it repeats of a training with dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np


class Event(NamedTuple):
    """Decision of a training after a step: to decay the learning rate, or to drop a layer."""

    step: int
    kind: Literal["decay", "drop"]
    layer: int = 0


@dataclass(frozen=True)
class Plan:
    """Length of a training that planned `total` steps and had its best evaluation after `steps`, and its decisions."""

    steps: int
    total: int
    events: tuple[Event, ...] = ()

    @property
    def share(self) -> float:
        """The share of the planned steps that are taken."""
        return self.steps / self.total

    def scaled(self, total: int) -> Plan:
        """Return the plan for a training of `total` planned steps, which ends after the same share of them."""

        def scale(step: int) -> int:
            return max(1, round(step * total / self.total))

        steps = scale(self.steps)
        return Plan(steps, total, tuple(event._replace(step=min(scale(event.step), steps)) for event in self.events))


WHOLE = Plan(1, 1)  # all planned steps, without decisions


@dataclass(frozen=True)
class Course:
    """A training of one fold: its plan up to the best evaluation, and the dev score of each evaluation by its step."""

    plan: Plan
    scores: Mapping[int, float]

    def nearest(self, share: float) -> int:
        """Return the step of the evaluation that is nearest to a share of the planned steps."""
        wanted = share * self.plan.total
        return min(self.scores, key=lambda step: (abs(step - wanted), step))


def plan_of_folds(courses: Sequence[Course]) -> Plan:
    """Return the longest plan whose mean score over the folds is within one standard error of the best one.

    This is the one-standard-error rule (Breiman et al., 1984). The best of the evaluations of a few rows is chance, and
    a training that ends early ends at a high learning rate. No plan is longer than the shortest training of a fold. The
    decisions are those of the fold with the median plan.
    """
    shortest = min(max(each.scores) / each.plan.total for each in courses)
    shares = sorted({step / each.plan.total for each in courses for step in each.scores})
    shares = [share for share in shares if share <= shortest]
    scores = np.array([[each.scores[each.nearest(share)] for each in courses] for share in shares])
    below = scores[scores.mean(1).argmax()] - scores  # (S, K)
    error = below.std(1, ddof=min(1, len(courses) - 1)) / len(courses) ** 0.5
    share = shares[int(np.flatnonzero(below.mean(1) <= error).max())]
    median = median_plan([each.plan for each in courses])
    steps = round(share * median.total)
    return Plan(steps, median.total, tuple(event for event in median.events if event.step <= steps))


def median_plan(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the median share of steps; of an even number, the lower one of the two in the middle."""
    return sorted(plans, key=lambda plan: plan.share)[(len(plans) - 1) // 2]
