"""Choice of systems and settings within a time budget, by trials on parts of train.

The linear and the frozen systems are kept as far as they fit into the time, because the order of linear, frozen and
fine-tuned systems changes with the rows. What they take is estimated by trials on few rows.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epigram.runner.search.candidates import (
    POS_TABLE,
    SHORTER,
    Candidate,
    Facts,
    contrastive,
    frozen,
    linear,
    trained,
    views,
)
from epigram.runner.search.costs import Costs, contrastive_seconds, examined_rows, frozen_seconds, linear_seconds
from epigram.runner.search.goal import Goal, Stopwatch
from epigram.runner.search.halving import (
    Answer,
    Ask,
    Failed,
    Pace,
    halved,
    pace_of,
    predicted_pace,
    probe_system,
    training_seconds,
    trials_fit,
)
from epigram.runner.search.plan import Plan
from epigram.training.trials.spec import TrialResult

LINEAR_ROWS = 256  # rows of such a trial of the linear SVM at most; its time is scaled up with a smaller error
PROBE_ROWS = 64  # rows of a trial that only measures the time
FIRST_SHARE = 0.4  # of the time that is left, for the linear system, and for the examination of train beside it
EPOCHS = (8, 6, 4, 3, 2, 1)
MARGIN = 0.85  # of the time that is left, for what is estimated

Proposals = Generator[Ask, Answer, Plan]


@dataclass(frozen=True)
class Planned:
    """A candidate with the estimated seconds of its stages."""

    candidate: Candidate
    seconds: float


def propose(facts: Facts, goal: Goal, watch: Stopwatch, costs: Costs, dataset: str) -> Proposals:
    """Yield the trials of a search, each of which is answered by its result, and return the plan.

    The linear SVM is in the plan, unless `hybrid_linear` fits into the time only without it. Every other system is if
    it is estimated to fit and its trials do not fail. Raises the error of the first trial, that of the linear SVM.
    """
    svm, linear_probe = yield from _linear(facts, watch, costs)
    rows = examined_rows(FIRST_SHARE * (watch.left - costs.end), linear_probe, facts, costs)
    encoder = frozen(facts)[-1:]
    answer = (yield from probe_system(encoder[0], facts, PROBE_ROWS, watch, costs.end)) if encoder else None
    probe = answer if isinstance(answer, TrialResult) else None
    planned = _closed_form(svm, facts, probe, watch.left - costs.end, costs)
    planned += _contrastive(facts, goal, probe, watch.left - costs.end - total(planned), costs)
    chosen, reserved = [each.candidate for each in planned], costs.end + total(planned)
    if probe or not encoder:
        chosen += yield from _trained(facts, goal, probe, watch, reserved, costs)
    return replace(_plan(facts, chosen, dataset), examine={} if rows is None else {"rows": rows})


def _trained(
    facts: Facts, goal: Goal, probe: TrialResult | None, watch: Stopwatch, reserved: float, costs: Costs
) -> Generator[Ask, Answer, list[Candidate]]:
    """Return the best variant of the trials with as many epochs as fit, if any.

    If the time is too short for two trials, it is the first variant, with the speed that follows from `probe`.
    """
    variants = trained(facts, goal.quality)
    if trials_fit(variants, facts, watch.left - reserved, probe):
        best = (yield from halved(facts, variants, watch, reserved))[:1]
        paced = [(each.candidate, pace_of(each)) for each in best]
    else:
        paced = [(each, predicted_pace(probe)) for each in variants[:1] if probe]
    seconds = MARGIN * (watch.left - reserved) - 3 * costs.stage
    longest = [_lengthened(each, pace, facts, seconds) for each, pace in paced]
    return [each for each in longest if each]


def _linear(facts: Facts, watch: Stopwatch, costs: Costs) -> Generator[Ask, Answer, tuple[Planned, TrialResult | None]]:
    """Return the slowest variant of the linear SVM that fits into a share of the time, or the fastest one.

    Also return the trial of the fastest one. There is none if the time is too short for it.
    """
    fastest, *slower = reversed(linear(facts))
    rows = min(LINEAR_ROWS, max(PROBE_ROWS, facts.train // 8))
    first = yield from probe_system(fastest, facts, rows, watch, costs.end)
    if isinstance(first, Failed):
        raise first.error
    if first is None:
        return Planned(fastest, 0.0), None
    chosen = Planned(fastest, linear_seconds(first, facts, costs))
    for candidate in slower:
        probe = yield from probe_system(candidate, facts, rows, watch, costs.end)
        seconds = linear_seconds(probe, facts, costs) if isinstance(probe, TrialResult) else math.inf
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
        room = MARGIN * (seconds - total(found))
        shorter = [] if candidate.counts_ngrams else [length for length in SHORTER if length in facts.tokens]
        lengths = [candidate, *(candidate.with_train(max_length=length) for length in shorter)]
        estimates = [Planned(each, frozen_seconds(each, probe, facts, costs)) for each in lengths]
        found += [each for each in estimates if each.seconds <= room][:1]
    return found


def _contrastive(facts: Facts, goal: Goal, probe: TrialResult | None, seconds: float, costs: Costs) -> list[Planned]:
    """Return the encoder that is trained on pairs, if it fits into `seconds`, by a trial of the frozen one."""
    tried = contrastive(facts, goal.quality) if probe else []
    estimates = [Planned(each, contrastive_seconds(each, probe, facts, costs)) for each in tried if probe]
    return [each for each in estimates if each.seconds <= MARGIN * seconds]


def total(planned: Iterable[Planned]) -> float:
    """Return the estimated seconds of all together."""
    return sum(each.seconds for each in planned)


def _lengthened(candidate: Candidate, pace: Pace, facts: Facts, seconds: float) -> Candidate | None:
    """Return the candidate with as many epochs as can be trained in `seconds`, None if not even one can."""
    seconds -= facts.predicted * pace.text
    for epochs in EPOCHS:
        found = candidate.with_train(epochs=epochs)
        needed = training_seconds(found, pace, facts.train, trainings=facts.trainings, held_out=facts.held_out)
        if needed <= seconds:
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
