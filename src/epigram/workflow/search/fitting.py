"""Which systems fit into a time, by the trials that measured a pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from epigram.training.trials.spec import TrialResult
from epigram.workflow.search import candidates
from epigram.workflow.search.candidates import SHORTER, Candidate, Facts
from epigram.workflow.search.costs import Costs, contrastive_seconds, frozen_seconds
from epigram.workflow.search.goal import Quality
from epigram.workflow.search.halving import Pace, predicted_pace, training_seconds

EPOCHS = (8, 6, 4, 3, 2, 1)
PAIRS_FIRST = 200  # rows up to which an encoder trained on pairs comes before a fine-tuned one
MARGIN = 0.85  # share of the remaining time that the estimates may fill


@dataclass(frozen=True)
class Planned:
    """A candidate with the estimated seconds of its stages."""

    candidate: Candidate
    seconds: float


def closed_form(svm: Planned, facts: Facts, probe: TrialResult | None, seconds: float, costs: Costs) -> list[Planned]:
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
    for candidate in candidates.frozen(facts):
        room = MARGIN * (seconds - total(found))
        shorter = [] if candidate.counts_ngrams else [length for length in SHORTER if length in facts.tokens]
        lengths = [candidate, *(candidate.with_train(max_length=length) for length in shorter)]
        estimates = [Planned(each, frozen_seconds(each, probe, facts, costs)) for each in lengths]
        found += [each for each in estimates if each.seconds <= room][:1]
    return found


def trained_on_pairs(
    facts: Facts, quality: Quality, probe: TrialResult | None, seconds: float, costs: Costs
) -> list[Planned]:
    """Return the encoder that is trained on pairs, if it fits into `seconds`, by a trial of the frozen one.

    If the first variant of the fine-tuned encoder fits only without it, it is left out with more than PAIRS_FIRST rows.
    """
    if probe is None:
        return []
    pace, found = predicted_pace(probe), list[Planned]()
    for candidate in candidates.contrastive(facts, quality):
        needed = contrastive_seconds(candidate, probe, facts, costs)
        alone, beside = (
            [lengthened(each, pace, facts, left, costs) for each in candidates.trained(facts, quality)[:1]]
            for left in (seconds, seconds - needed)
        )
        if needed <= MARGIN * seconds and (facts.train <= PAIRS_FIRST or any(beside) or not any(alone)):
            found.append(Planned(candidate, needed))
    return found


def total(planned: Iterable[Planned]) -> float:
    """Return the estimated seconds of all together."""
    return sum(each.seconds for each in planned)


def lengthened(candidate: Candidate, pace: Pace, facts: Facts, left: float, costs: Costs) -> Candidate | None:
    """Return the candidate with as many epochs as can be trained in `left` seconds, None if not even one can."""
    seconds = MARGIN * left - 3 * costs.stage - facts.predicted * pace.text
    for epochs in EPOCHS:
        found = candidate.with_train(epochs=epochs)
        needed = training_seconds(found, pace, facts.train, trainings=facts.trainings, held_out=facts.held_out)
        if needed <= seconds:
            return found
    return None
