"""Choice of systems and settings within a time budget, by trials on parts of train.

Successive halving on rows (Jamieson and Talwalkar, 2016): the variants of a system are tried on few rows, and the
better half on more. The linear and the frozen systems are kept as far as they fit into the time, because the order of
linear, frozen and fine-tuned systems changes with the rows. What they take is estimated by trials on few rows. Dev and
out-of-fold texts judge; the test set is not read.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epigram.runner.search.candidates import (
    LENGTHS,
    POS_TABLE,
    Candidate,
    Facts,
    frozen,
    linear,
    trained,
    views,
)
from epigram.runner.search.costs import Costs, examined_rows, frozen_seconds, linear_seconds, step_seconds
from epigram.runner.search.goal import Goal, Stopwatch
from epigram.runner.search.plan import Plan
from epigram.training.trials.spec import TrialResult, TrialSpec

PROBE_ROWS = 64  # rows of a trial that only measures the time
LINEAR_ROWS = 256  # rows of such a trial of the linear SVM at most; its time is scaled up with a smaller error
FIRST_SHARE = 0.4  # of the time that is left, for the linear system, and for the examination of train beside it
RUNGS = (500, 2_000, 8_000)  # rows of the trials of one variant
SEARCH_SHARE = 0.4  # of the time that is left, for trials; the rest is for the final training
EPOCHS = (8, 6, 4, 3, 2, 1)
MIN_TRIAL_SECONDS = 4.0  # with less time, no trial is started
MARGIN = 0.85  # of the time that is left, for what is estimated


@dataclass(frozen=True)
class Ask:
    """A trial that a search asks for; it is ended after `seconds`, and its answer is then None."""

    spec: TrialSpec
    seconds: float


Proposals = Generator[Ask, TrialResult | None, Plan]


@dataclass(frozen=True)
class Planned:
    """A candidate with the estimated seconds of its stages."""

    candidate: Candidate
    seconds: float


@dataclass(frozen=True)
class Tried:
    """A candidate with its result on some rows."""

    candidate: Candidate
    result: TrialResult

    def rank(self) -> tuple[float, float]:
        """Return the key by which a better result comes first."""
        return -self.result.score, self.result.loss


def propose(facts: Facts, goal: Goal, watch: Stopwatch, costs: Costs, dataset: str) -> Proposals:
    """Yield the trials of a search, each of which is answered by its result, and return the plan.

    The linear SVM is in the plan, unless `hybrid_linear` fits into the time only without it. Every other system is if
    it is estimated to fit.
    """
    svm, linear_probe = yield from _linear(facts, watch, costs)
    rows = examined_rows(FIRST_SHARE * (watch.left - costs.end), linear_probe, facts, costs)
    encoder = frozen(facts)[-1:]
    probe = (yield from _probe(encoder[0], facts, PROBE_ROWS, watch, costs.end)) if encoder else None
    planned = _closed_form(svm, facts, probe, watch.left - costs.end, costs)
    chosen, reserved = [each.candidate for each in planned], costs.end + sum(each.seconds for each in planned)
    variants: list[Tried] = yield from _halved(
        facts, _possible(facts, goal, watch.left - reserved, probe), watch, reserved
    )
    if variants:
        longest = _lengthened(variants[0], facts, MARGIN * (watch.left - reserved) - 3 * costs.stage)
        chosen += [] if longest is None else [longest]
    return replace(_plan(facts, chosen, dataset), examine={} if rows is None else {"rows": rows})


def _linear(
    facts: Facts, watch: Stopwatch, costs: Costs
) -> Generator[Ask, TrialResult | None, tuple[Planned, TrialResult | None]]:
    """Return the slowest variant of the linear SVM that fits into a share of the time, or the fastest one.

    Also return the trial of the fastest one. There is none if the time is too short for it.
    """
    fastest, *slower = reversed(linear(facts))
    rows = min(LINEAR_ROWS, max(PROBE_ROWS, facts.train // 8))
    first = yield from _probe(fastest, facts, rows, watch, costs.end)
    if first is None:
        return Planned(fastest, 0.0), None
    chosen = Planned(fastest, linear_seconds(first, facts, costs))
    for candidate in slower:
        probe = yield from _probe(candidate, facts, rows, watch, costs.end)
        seconds = math.inf if probe is None else linear_seconds(probe, facts, costs)
        if seconds > FIRST_SHARE * (watch.left - costs.end):
            break
        chosen = Planned(candidate, seconds)
    return chosen, first


def _closed_form(svm: Planned, facts: Facts, probe: TrialResult | None, seconds: float, costs: Costs) -> list[Planned]:
    """Return the linear SVM and the systems on a frozen encoder that fit into `seconds`, by a trial of the encoder.

    If `hybrid_linear`, which also counts the n-grams, fits only without the SVM, the SVM is left out.
    """
    if probe is None:
        return [svm]
    beside, alone = (_frozen(facts, probe, left, costs) for left in (seconds - svm.seconds, seconds))
    counts = [any(each.candidate.counts_ngrams for each in systems) for systems in (beside, alone)]
    return alone if counts == [False, True] else [svm, *beside]


def _frozen(facts: Facts, probe: TrialResult, seconds: float, costs: Costs) -> list[Planned]:
    """Return the systems on a frozen encoder that fit into `seconds`, with the longest texts that fit.

    The texts of one that also counts n-grams are not shortened: it would count less than the linear SVM.
    """
    found: list[Planned] = []
    for candidate in frozen(facts):
        room = MARGIN * (seconds - sum(each.seconds for each in found))
        shorter = () if candidate.counts_ngrams else LENGTHS[1:]
        lengths = [candidate, *(candidate.with_train(max_length=length) for length in shorter)]
        estimates = [Planned(each, frozen_seconds(each, probe, facts, costs)) for each in lengths]
        found += [each for each in estimates if each.seconds <= room][:1]
    return found


def _possible(facts: Facts, goal: Goal, seconds: float, probe: TrialResult | None) -> list[Candidate]:
    """Return the variants to try by gradient descent; none if the encoder is too slow for a trial in `seconds`."""
    variants = trained(facts, goal.quality)
    if not variants or facts.checkpoint is None:
        return variants
    if probe is None:
        return []
    steps = _trial_trainings(facts) * variants[0].steps(min(RUNGS[0], facts.train))
    return variants if steps * step_seconds(probe) <= SEARCH_SHARE * seconds else []


def _probe(
    candidate: Candidate, facts: Facts, rows: int, watch: Stopwatch, reserved: float
) -> Generator[Ask, TrialResult | None, TrialResult | None]:
    """Return the result of a trial that only measures the cost: one training, with as many held-out texts."""
    spec = replace(_spec(candidate, facts, rows), held_out=rows, folds=1)
    return (yield from _run(spec, watch, reserved))


def _try_all(
    candidates: Iterable[Candidate], facts: Facts, rows: int, watch: Stopwatch, reserved: float = 0.0
) -> Generator[Ask, TrialResult | None, list[Tried]]:
    """Return the candidates whose trial on `rows` rows ends in time, with their results."""
    tried = []
    for candidate in candidates:
        result = yield from _run(_spec(candidate, facts, rows), watch, reserved)
        if result is not None:
            tried.append(Tried(candidate, result))
    return tried


def _run(spec: TrialSpec, watch: Stopwatch, reserved: float) -> Generator[Ask, TrialResult | None, TrialResult | None]:
    """Return the result of a trial, which may take a share of the time that is left besides the `reserved` seconds."""
    seconds = SEARCH_SHARE * (watch.left - reserved)
    return None if seconds < MIN_TRIAL_SECONDS else (yield Ask(spec, seconds))


def _halved(
    facts: Facts, variants: Sequence[Candidate], watch: Stopwatch, reserved: float
) -> Generator[Ask, TrialResult | None, list[Tried]]:
    """Return the variants that are left after the last rung that the time allows, the best one first.

    The first variant shows what a step takes; without its result, no other variant is tried.
    """
    until = watch.left - SEARCH_SHARE * max(0.0, watch.left - reserved)  # the rest is for the final training
    rungs = list(dict.fromkeys(min(rung, facts.train) for rung in RUNGS))
    left = tried = yield from _try_all(variants[:1], facts, rungs[0], watch, reserved)
    if not tried:
        return []
    pace, asked = _trial_trainings(facts) * _pace(tried[0]), list(variants[1:])
    for rows in rungs:
        if watch.left - pace * sum(each.steps(rows) for each in asked) < until:
            break
        found = yield from _try_all(asked, facts, rows, watch, reserved)
        if len(found) < len(asked):
            break  # those that were not tried on these rows cannot be compared
        left = sorted([*tried, *found], key=Tried.rank)[: max(1, (len(tried) + len(found)) // 2)]
        if len(left) < 2:
            break
        asked, tried = [each.candidate for each in left], []
    return left


def _pace(tried: Tried) -> float:
    """Return the seconds of a step."""
    return tried.result.seconds / tried.candidate.steps(tried.result.rows)


def _trial_trainings(facts: Facts) -> int:
    return min(facts.folds, TrialSpec.folds) or 1


def _spec(candidate: Candidate, facts: Facts, rows: int) -> TrialSpec:
    return TrialSpec(name=candidate.name, system=candidate.settings, rows=min(rows, facts.train))


def _lengthened(variant: Tried, facts: Facts, seconds: float) -> Candidate | None:
    """Return the candidate with as many epochs as can be trained in `seconds`, None if not even one can."""
    pace = _pace(variant)
    seconds -= facts.predicted * variant.result.ms_per_text / 1000
    for epochs in EPOCHS:
        found = variant.candidate.with_train(epochs=epochs)
        if facts.trainings * pace * found.steps(facts.train) <= seconds:
            return found
    return None


def _plan(facts: Facts, chosen: Sequence[Candidate], dataset: str) -> Plan:
    systems: dict[str, dict[str, Any]] = {each.name: each.settings for each in chosen}
    used = {system["view"] for system in systems.values()}
    return Plan(
        dataset=dataset,
        seeds=[0],
        views={name: view for name, view in views(facts).items() if name in used},
        systems=systems,
        pos_table=POS_TABLE,
        prune={"enabled": False},
        compare={"prefer": "best"},
    )
