"""Plan of the faults and their order; the same seed gives the same plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil

from tests.drill.faults import Fault


@dataclass(frozen=True)
class Planned:
    """A fault of a plan; `turn` counts the faults of its kind across the plans of the seeds 0, 1, 2 and so on."""

    seed: int
    number: int
    fault: Fault
    turn: int


def plan(known: list[Fault], count: int, seed: int, *, mounted: bool) -> list[Planned]:
    """Return `count` faults in random order.

    Kinds with a percentage get their share. Of the kinds with a weight, each occurs once before any is drawn again by
    weight.
    """
    rng, usable = random.Random(seed), [fault for fault in known if not fault.left_out(mounted=mounted)]
    fixed = [fault for fault in usable for _ in range(ceil(fault.percent * count / 100))]
    rest = max(0, count - len(fixed))
    chosen = _drawn(usable, rest, rng) or list(islice(cycle(usable), rest))
    faults = [*rng.sample(fixed, min(len(fixed), count)), *chosen]
    rng.shuffle(faults)
    totals, seen = Counter(fault.name for fault in faults), Counter[str]()
    planned = []
    for number, fault in enumerate(faults, 1):
        planned.append(Planned(seed, number, fault, seed * totals[fault.name] + seen[fault.name]))
        seen[fault.name] += 1
    return planned


def _drawn(usable: list[Fault], count: int, rng: random.Random) -> list[Fault]:
    """Return `count` faults of the kinds with a weight."""
    weighted = [fault for fault in usable if fault.weight]
    if not weighted:
        return []
    drawn = rng.choices(weighted, [fault.weight for fault in weighted], k=count)
    return [*rng.sample(weighted, len(weighted)), *drawn][:count]
