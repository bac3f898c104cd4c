"""Plan of a training without dev: what it repeats of a training with dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple


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


def median_plan(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the median share of steps; of an even number, the lower one of the two in the middle."""
    return sorted(plans, key=lambda plan: plan.share)[(len(plans) - 1) // 2]
