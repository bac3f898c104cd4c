"""Trials on parts of train, and successive halving on rows (Jamieson and Talwalkar, 2016).

The variants of a system are tried on few rows, and the better half on more. Dev and out-of-fold texts judge; the test
set is not read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from epigram.core.errors import EpigramError
from epigram.training.trials.spec import TrialResult, TrialSpec
from epigram.workflow.search.candidates import Candidate, Facts
from epigram.workflow.search.costs import step_seconds
from epigram.workflow.search.goal import Stopwatch

RUNGS = (500, 2_000, 8_000)  # rows of the trials of one variant
SEARCH_SHARE = 0.4  # share of the remaining time for trials; the rest is for the final training
MIN_TRIAL_SECONDS = 4.0  # minimum time for which a trial is started


@dataclass(frozen=True)
class Ask:
    """A trial that a search asks for; it is ended after `seconds`, and its answer is then None."""

    spec: TrialSpec
    seconds: float


@dataclass(frozen=True)
class Failed:
    """Answer of a trial that has failed, and not only taken too long."""

    error: EpigramError


Answer = TrialResult | Failed | None
Trial = Generator[Ask, Answer, Answer]


@dataclass(frozen=True)
class Tried:
    """A candidate with its result on some rows."""

    candidate: Candidate
    result: TrialResult

    def rank(self) -> tuple[float, float]:
        """Return the key by which a better result comes first."""
        return -self.result.score, self.result.loss


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds of a training step, and of the prediction of a text."""

    step: float
    text: float


def probe_system(candidate: Candidate, facts: Facts, rows: int, watch: Stopwatch, reserved: float) -> Trial:
    """Return the answer of a trial that only measures the cost: one training, with as many held-out texts."""
    spec = replace(_spec(candidate, facts, rows), held_out=rows, folds=1)
    return (yield from _run(spec, watch, reserved))


def trials_fit(variants: Sequence[Candidate], facts: Facts, seconds: float, probe: TrialResult | None) -> bool:
    """Return whether two trials, the least that can be compared, are estimated to end in their share of `seconds`.

    They do not if no trial would be started.
    """
    share = SEARCH_SHARE * seconds
    if not variants or share < MIN_TRIAL_SECONDS:
        return False
    if probe is None:
        return True
    return 2 * _trial_seconds(variants[0], facts, min(RUNGS[0], facts.fitted), predicted_pace(probe)) <= share


def halved(
    facts: Facts, variants: Sequence[Candidate], watch: Stopwatch, reserved: float
) -> Generator[Ask, Answer, list[Tried]]:
    """Return the variants that are left after the last rung that the time allows, the best one first.

    The first variant shows what a step takes; if it takes too long, no other one is tried. A variant that fails is out.
    """
    until = watch.left - SEARCH_SHARE * max(0.0, watch.left - reserved)  # the rest is for the final training
    rungs = list(dict.fromkeys(min(rung, facts.fitted) for rung in RUNGS))
    asked, tried = list(variants), list[Tried]()
    while asked and not tried:
        first = yield from _try_all([asked.pop(0)], facts, rungs[0], watch, reserved)
        if first is None:
            return []
        tried = first
    if not tried:
        return []
    left, pace = tried, pace_of(tried[0])
    for rows in rungs:
        if watch.left - sum(_trial_seconds(each, facts, rows, pace) for each in asked) < until:
            break
        found = yield from _try_all(asked, facts, rows, watch, reserved)
        if found is None:
            break  # variants that were not tried on these rows cannot be compared
        left = sorted([*tried, *found], key=Tried.rank)[: max(1, (len(tried) + len(found)) // 2)]
        if len(left) < 2:
            break
        asked, tried = [each.candidate for each in left], []
    return left


def _try_all(
    candidates: Iterable[Candidate], facts: Facts, rows: int, watch: Stopwatch, reserved: float
) -> Generator[Ask, Answer, list[Tried] | None]:
    """Return the candidates whose trial on `rows` rows does not fail, with their results.

    Returns None as soon as a trial takes too long.
    """
    tried = []
    for candidate in candidates:
        answer = yield from _run(_spec(candidate, facts, rows), watch, reserved)
        if answer is None:
            return None
        if isinstance(answer, TrialResult):
            tried.append(Tried(candidate, answer))
    return tried


def _run(spec: TrialSpec, watch: Stopwatch, reserved: float) -> Trial:
    """Return the answer of a trial, which may take a share of the time that is left besides the `reserved` seconds."""
    seconds = SEARCH_SHARE * (watch.left - reserved)
    return None if seconds < MIN_TRIAL_SECONDS else (yield Ask(spec, seconds))


def pace_of(tried: Tried) -> Pace:
    """Return the measured pace of a trial: a step without the evaluations, but at least a prediction of its texts."""
    result, candidate = tried.result, tried.candidate
    text = result.ms_per_text / 1000
    evaluated = (result.evaluations or candidate.evaluations(result.rows)) * result.held_out * text
    least = text * int(candidate.system.train["batch_size"])
    steps = result.steps or candidate.steps(result.rows)
    return Pace(step=max(least, (result.seconds - evaluated) / steps), text=text)


def predicted_pace(probe: TrialResult) -> Pace:
    """Return the pace of fine-tuning that a trial of the frozen encoder predicts."""
    return Pace(step=step_seconds(probe), text=probe.ms_per_text / 1000)


def training_seconds(candidate: Candidate, pace: Pace, rows: int, *, trainings: int, held_out: int) -> float:
    """Return the seconds of trainings on `rows` texts each, which evaluate on `held_out` texts together."""
    steps, evaluations = candidate.steps(rows), candidate.evaluations(rows)
    return trainings * steps * pace.step + evaluations * held_out * pace.text


def _trial_seconds(candidate: Candidate, facts: Facts, rows: int, pace: Pace) -> float:
    folds = min(facts.folds, TrialSpec.folds)
    held_out = min(facts.train - facts.fitted if folds else facts.dev, TrialSpec.held_out)
    trainings = folds or 1
    return training_seconds(candidate, pace, rows, trainings=trainings, held_out=trainings * held_out)


def _spec(candidate: Candidate, facts: Facts, rows: int) -> TrialSpec:
    rows = min(rows, facts.train)
    return TrialSpec(name=candidate.name, system=candidate.settings, rows=rows, train=dict(facts.shared))
