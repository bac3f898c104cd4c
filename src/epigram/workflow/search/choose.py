"""Choice of systems and settings within a time budget, by trials on parts of train.

The linear and the frozen systems are kept as far as they fit into the time, because the order of linear, frozen and
fine-tuned systems changes with the rows. What they take is estimated by trials on few rows.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from epigram.training.trials.spec import TrialResult
from epigram.workflow.search.candidates import (
    POS_TABLE,
    Candidate,
    Facts,
    frozen,
    linear,
    trained,
    views,
)
from epigram.workflow.search.costs import Costs, examined_rows, linear_seconds
from epigram.workflow.search.fitting import Planned, closed_form, lengthened, total, trained_on_pairs
from epigram.workflow.search.goal import Goal, Stopwatch
from epigram.workflow.search.halving import (
    Answer,
    Ask,
    Failed,
    halved,
    pace_of,
    predicted_pace,
    probe_system,
    trials_fit,
)
from epigram.workflow.search.plan import RunPlan

LINEAR_ROWS = 256  # rows of such a trial of the linear SVM at most; its time is scaled up with a smaller error
PROBE_ROWS = 64  # rows of a trial that only measures the time
FIRST_SHARE = 0.4  # share of the remaining time for the linear system, and for the examination of train beside it

Proposals = Generator[Ask, Answer, RunPlan]


def propose(facts: Facts, goal: Goal, watch: Stopwatch, costs: Costs, dataset: str) -> Proposals:
    """Yield the trials of a search, each of which is answered by its result, and return the plan.

    The linear SVM is in the plan, unless `hybrid_linear` fits into the time only without it. Every other system is if
    it is estimated to fit and its trials do not fail. Raises the error of the first trial, the linear SVM's.
    """
    svm, linear_probe = yield from _linear(facts, watch, costs)
    rows = examined_rows(FIRST_SHARE * (watch.left - costs.end), linear_probe, facts, costs)
    encoder = frozen(facts)[-1:]
    answer = (yield from probe_system(encoder[0], facts, PROBE_ROWS, watch, costs.end)) if encoder else None
    probe = answer if isinstance(answer, TrialResult) else None
    planned = closed_form(svm, facts, probe, watch.left - costs.end, costs)
    planned += trained_on_pairs(facts, goal.quality, probe, watch.left - costs.end - total(planned), costs)
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
    longest = [lengthened(each, pace, facts, watch.left - reserved, costs) for each, pace in paced]
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


def _plan(facts: Facts, chosen: Sequence[Candidate], dataset: str) -> RunPlan:
    systems: dict[str, dict[str, Any]] = {each.name: each.settings for each in chosen}
    used = {system["view"] for system in systems.values()}
    return RunPlan(
        dataset=dataset,
        seeds=[0],
        views={name: view for name, view in views(facts).items() if name in used},
        systems=systems,
        pos_table=POS_TABLE,
        prune={"enabled": False},
        compare={"prefer": "best"},
    )
