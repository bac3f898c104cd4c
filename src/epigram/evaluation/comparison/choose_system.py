"""Choice of one of a run's systems by the development set.

The best system has the highest development score; if scores are equal, fewer parameters decide. A system whose
development score does not differ significantly from the best is tied with it. By default the cheapest tied system is
chosen if it needs at most half of the best one's FLOPs per text, unless the best needs next to none; FLOPs are the same
on every machine. With `prefer: best`, the tied system with the lowest log loss on dev is chosen, which depends less on
chance than the score; a system is left out of this choice if experience on other data ranks it below another tied one.

An ensemble has to earn its cost: unless it is better than the best single system by more than the standard error of
the paired difference, it is ranked after that system and is not chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from epigram.evaluation.comparison.scored_system import ScoredSystem
from epigram.evaluation.comparison.significance import Verdict, standard_error, verdicts
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.records.ensemble_record import ENSEMBLE
from epigram.evaluation.records.results import Metrics
from epigram.evaluation.settings import Preference

MUCH_CHEAPER = 0.5  # share of the best system's FLOPs at which a tied system is chosen instead
NEGLIGIBLE = 1e6  # FLOPs per text, far below a millisecond: a best system that needs less is chosen itself


@dataclass(frozen=True)
class Ranking:
    """Systems in the order of their scores, best first, and the `place` of the chosen one.

    `on_dev` are the verdicts against the best, `tied` the places of the systems that are tied with it, `possible` the
    tied places that can be chosen, and `cheapest` the cheapest possible place. `replaced` are the places of the best
    and the tied systems that the chosen system is preferred to, whatever their scores. `refused` has the place of an
    ensemble that does not earn its cost, and `error` is the standard error of its difference to the best single system.
    `outdone` are the places that are not chosen because experience ranks their systems below a tied one.
    """

    ranked: Sequence[ScoredSystem]
    on_dev: dict[str, Verdict]
    tied: list[int]
    possible: list[int]
    cheapest: int | None
    place: int
    replaced: list[int]
    refused: list[int]
    error: float
    outdone: list[int]


def decide(
    systems: Sequence[ScoredSystem], alpha: float, prefer: Preference, expected: Mapping[str, float] | None = None
) -> Ranking:
    """Rank the systems on dev, test each against the best, and choose one.

    `expected` are the accuracies of systems by experience, which `prefer: best` takes into account.
    """
    by_score = sorted(systems, key=lambda each: rank(each.metrics, _score(each)))
    ranked, refused, error = _earned(by_score)
    on_dev = against(ranked, 0, [each.dev for each in ranked], alpha)
    tied = [n for n, each in enumerate(ranked) if n and on_dev[each.metrics.system].outcome == "tie"]
    # The random baseline, the only system without parameters, is tied with all others on a few rows.
    possible = [n for n in tied if _price(ranked[n].metrics)[1] and n not in refused]
    cheapest = min(possible, key=lambda n: _price(ranked[n].metrics), default=None)
    likely = _unless_worse_by_experience(ranked, [0, *possible], (prefer == "best" and expected) or {})
    outdone = [n for n in (0, *possible) if n not in likely]
    place = _likeliest(ranked, likely) if prefer == "best" else _cheaper(ranked, cheapest)
    preferred = _likelier if prefer == "best" else _much_cheaper
    replaced = [n for n in (0, *tied) if n in refused or n in outdone or preferred(ranked[place], ranked[n])]
    return Ranking(ranked, on_dev, tied, possible, cheapest, place, replaced, refused, error, outdone)


def _earned(ranked: Sequence[ScoredSystem]) -> tuple[Sequence[ScoredSystem], list[int], float]:
    """Return the systems, the place of an ensemble if it is refused, and the standard error of its difference.

    A refused ensemble that was the first comes after the best single system.
    """
    names = [each.metrics.system for each in ranked]
    if ENSEMBLE not in names or len(ranked) == 1:
        return ranked, [], 0.0
    place = names.index(ENSEMBLE)
    single, ensemble = ranked[0 if place else 1], ranked[place]
    error = standard_error(ensemble.dev, single.dev)
    if round(_score(ensemble) - _score(single), 9) > error:
        return ranked, [], error
    return ([single, ensemble, *ranked[2:]], [1], error) if place == 0 else (ranked, [place], error)


def _score(system: ScoredSystem) -> float:
    return float(system.dev.scores().mean())


def rank(metrics: Metrics, score: float) -> tuple[float, int, str]:
    """Return the key by which a better system comes first: its score, then fewer parameters, then the name."""
    rounded = round(score, 9)  # a float mean depends on the order of the seeds
    return (-rounded, median_low(seed.cost.parameters for seed in metrics.seeds), metrics.system)


def _unless_worse_by_experience(
    ranked: Sequence[ScoredSystem], places: Sequence[int], expected: Mapping[str, float]
) -> list[int]:
    """Return the places without the systems for which less is expected than for another one of them."""
    known = {n: expected[name] for n in places if (name := ranked[n].metrics.system) in expected}
    most = max(known.values(), default=0.0)
    return [n for n in places if known.get(n, most) == most]


def _likeliest(ranked: Sequence[ScoredSystem], places: Sequence[int]) -> int:
    """Return the place in `places` whose system has the lowest loss; the first place if its system has no loss."""
    losses = {n: ranked[n].dev_loss for n in places}
    known = {n: loss for n, loss in losses.items() if loss is not None}
    return min(known, key=lambda n: known[n]) if places[0] in known else places[0]


def _cheaper(ranked: Sequence[ScoredSystem], cheapest: int | None) -> int:
    """Return the place of the cheapest tied system if it is much cheaper than the best, else 0, the best system."""
    return cheapest if cheapest is not None and _much_cheaper(ranked[cheapest], ranked[0]) else 0


def _likelier(one: ScoredSystem, other: ScoredSystem) -> bool:
    """Return whether both systems have a log loss, and the first one has the lower one."""
    return one.dev_loss is not None and other.dev_loss is not None and one.dev_loss < other.dev_loss


def _much_cheaper(one: ScoredSystem, other: ScoredSystem) -> bool:
    """Return whether the first system costs so much less that it is chosen where both are tied."""
    (flops, _), (others, _) = _price(one.metrics), _price(other.metrics)
    return others >= NEGLIGIBLE and flops <= MUCH_CHEAPER * others


def _price(metrics: Metrics) -> tuple[float, int]:
    costs = [seed.cost for seed in metrics.seeds]
    return median_low(cost.flops for cost in costs), median_low(cost.parameters for cost in costs)


def against(
    ranked: Sequence[ScoredSystem], place: int, scores: Sequence[ScoredRows], alpha: float
) -> dict[str, Verdict]:
    """Return the verdict of every other system against the one at `place`."""
    names = [each.metrics.system for each in ranked]
    others = {name: scores[n] for n, name in enumerate(names) if n != place}
    return verdicts(scores[place], others, alpha)
