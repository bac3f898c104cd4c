"""Plan of a training without dev: length and decisions of a training with dev, and their replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal, NamedTuple

import numpy as np


class Event(NamedTuple):
    """Decision of a training after a step: to decay the learning rate, or to drop a layer."""

    step: int
    kind: Literal["decay", "drop"]
    layer: int = 0


@dataclass(frozen=True)
class Plan:
    """Length of a training that planned `total` steps and had its best evaluation after `steps`, and its decisions.

    A training by the plan ignores decisions recorded after `steps`.
    """

    steps: int
    total: int
    events: tuple[Event, ...] = ()

    @property
    def share(self) -> float:
        """The share of the planned steps that are taken."""
        return self.steps / self.total

    def scaled(self, total: int) -> Plan:
        """Return the plan for a training of `total` planned steps, which ends after the same share of them.

        It has no decisions after its end.
        """

        def scale(step: int) -> int:
            return max(1, round(step * total / self.total))

        events = tuple(event._replace(step=scale(event.step)) for event in self.events if event.step <= self.steps)
        return Plan(scale(self.steps), total, events)


WHOLE = Plan(1, 1)  # all planned steps, without decisions


@dataclass(frozen=True)
class Course:
    """A training of one fold: its plan up to the best evaluation, and the dev score of each evaluation by its step.

    If the training has dropped layers, only scores after the last drop count.
    """

    plan: Plan
    scores: Mapping[int, float]

    @classmethod
    def of(cls, plan: Plan, scores: Mapping[int, float]) -> Course:
        """Return the course with the scores of the final depth."""
        dropped = max((event.step for event in plan.events if event.kind == "drop"), default=0)
        return cls(plan, {step: score for step, score in scores.items() if step >= dropped})

    @property
    def shares(self) -> list[float]:
        """Shares of the planned steps after which there are scores, in ascending order."""
        return [step / self.plan.total for step in sorted(self.scores)]

    def nearest(self, share: float) -> int:
        """Return the step of the score that is nearest to a share of the planned steps."""
        wanted = share * self.plan.total
        return min(self.scores, key=lambda step: (abs(step - wanted), step))


def plan_of_folds(courses: Sequence[Course]) -> Plan:
    """Return the longest plan whose mean score over the folds is not clearly below the best one.

    Clearly is by more than one standard error of the differences over the folds, after the one-standard-error rule
    (Breiman et al., 1984). The best of the evaluations of a few rows is chance, and a training that ends early ends at
    a high learning rate. No plan is longer than the training of the median fold; a fold that has ended earlier counts
    with its last score. The decisions are from the fold with the median plan.
    """
    shares = _common_shares(courses)
    scores = np.array([[each.scores[each.nearest(share)] for each in courses] for share in shares])
    below = scores[scores.mean(1).argmax()] - scores  # (S, K)
    error = below.std(1, ddof=min(1, len(courses) - 1)) / len(courses) ** 0.5
    share = shares[int(np.flatnonzero(below.mean(1) <= error).max())]
    median = median_plan([each.plan for each in courses])
    steps = round(share * median.total)
    return Plan(steps, median.total, tuple(event for event in median.events if event.step <= steps))


def _common_shares(courses: Sequence[Course]) -> list[float]:
    """Return the shares at which a plan may end: all folds have their final depth, and half of them still train."""
    first, last = max(each.shares[0] for each in courses), median_low(each.shares[-1] for each in courses)
    found = sorted({share for each in courses for share in each.shares})
    return [share for share in found if first <= share <= last] or [last]


def median_plan(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the median share of steps; of an even number, the lower one of the two in the middle."""
    return sorted(plans, key=lambda plan: plan.share)[(len(plans) - 1) // 2]
