"""Covering array: few combinations of levels that together contain every allowed pair of levels (pairwise testing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

Level = tuple[str, str]  # a factor and one of its levels
Pair = frozenset[Level]
Case = dict[str, str]  # the level of every factor
Factors = Mapping[str, Sequence[str]]
Allowed = Callable[[Level, Level], bool]


def pairs_of(case: Case) -> list[Pair]:
    """Return all pairs of levels in a case."""
    return [frozenset(pair) for pair in combinations(case.items(), 2)]


def all_pairs(factors: Factors) -> list[tuple[Level, Level]]:
    """Return every pair of levels of two factors, in the order of the factors."""
    return [
        ((first, one), (second, other))
        for first, second in combinations(factors, 2)
        for one in factors[first]
        for other in factors[second]
    ]


def covering_array(factors: Factors, allowed: Allowed) -> list[Case]:
    """Return cases without a pair that is not `allowed` which together contain all allowed pairs.

    A case starts from a missing pair. Each further level is the one with the most missing pairs, and of these the least
    used one. The same input always gives the same cases. Raises ValueError if an allowed pair is in no case.
    """
    missing = {frozenset(pair): pair for pair in all_pairs(factors) if allowed(*pair)}
    cases: list[Case] = []
    used: Counter[Level] = Counter()

    def rank(fixed: Case, level: Level) -> tuple[int, int]:
        return sum(frozenset((level, chosen)) in missing for chosen in fixed.items()), -used[level]

    while missing:
        pair = next(iter(missing.values()))
        case = complete(factors, allowed, dict(pair), rank)
        if case is None:
            raise ValueError(f"no combination contains {pair[0]} and {pair[1]}")
        cases.append(case)
        used.update(case.items())
        for covered in pairs_of(case):
            missing.pop(covered, None)
    return cases


def complete(
    factors: Factors, allowed: Allowed, fixed: Case, rank: Callable[[Case, Level], tuple[int, int]] = lambda *_: (0, 0)
) -> Case | None:
    """Return `fixed` with a level of each other factor: the one with the highest `rank` that leads to a full case.

    Returns None if no combination of allowed pairs contains `fixed`, whose own pairs are not checked.
    """
    factor = next((name for name in factors if name not in fixed), None)
    if factor is None:
        return {name: fixed[name] for name in factors}
    levels = [(factor, level) for level in factors[factor]]
    for level in sorted(levels, key=lambda level: rank(fixed, level), reverse=True):
        if all(allowed(level, chosen) for chosen in fixed.items()):
            case = complete(factors, allowed, {**fixed, factor: level[1]}, rank)
            if case is not None:
                return case
    return None
