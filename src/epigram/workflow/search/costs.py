"""Estimated seconds of the stages of a system, from trials on few texts.

The constants were measured on agnews_43k, nlpcc2017, sst5 and 20newsgroups, on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epigram.training.trials.spec import TrialResult
from epigram.workflow.search.candidates import BATCH, Candidate, Facts

# Seconds of the linear fits for each text and class, all penalties together, on MEASURED numbers of each text.
# A system reads four layers of MiniLM, 1,536 numbers, or less of other encoders, but never more numbers than texts.
MEASURED, FEATURES = 384, 1_536
FIT_SECONDS: Mapping[str, float] = {"embedding_linear": 1e-4, "hybrid_linear": 1.5e-4, "setfit": 1e-4}
EXAMINED, MIN_EXAMINED = 4.0, 500  # times the fit of an SVM: the examination of the texts; the least of them
BACKWARD = 3.0  # times a prediction: a step of fine-tuning, for each text
LOADING = 2.0  # loading the encoder, for all folds and the final fit: as long as so many stages
TIMED = 256  # texts that take as long as the measurement of the speed, if train has folds


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of a run besides training: of a stage, and of what follows the last stage of the systems."""

    stage: float
    end: float


def linear_seconds(probe: TrialResult, facts: Facts, costs: Costs) -> float:
    """Return the seconds of a linear SVM on TF-IDF, from a trial of it; its settings are searched in each fold."""
    fits = max(1, facts.folds) * probe.seconds * facts.train / probe.rows
    return fits + facts.predicted * probe.ms_per_text / 1000 + 3 * costs.stage


def frozen_seconds(candidate: Candidate, probe: TrialResult, facts: Facts, costs: Costs) -> float:
    """Return the seconds of a linear head on a frozen encoder, from the `ms_per_text` of a trial.

    Each text of train is encoded once for all folds and the final fit, each text of dev and test at most twice.
    """
    texts = facts.train + 2 * facts.dev + facts.test + TIMED
    encoding = facts.share(candidate.shortened) * texts * probe.ms_per_text / 1000
    return encoding + _fit_seconds(candidate, facts) + (3 + LOADING) * costs.stage


def contrastive_seconds(candidate: Candidate, probe: TrialResult, facts: Facts, costs: Costs) -> float:
    """Return the seconds of a linear head on an encoder that is trained on pairs, for each fold and the final fit.

    All texts of train are encoded by each of these encoders.
    """
    batch = candidate.system.train["batch_size"]
    training = candidate.steps(facts.train) * step_seconds(probe, batch)
    encoding = (facts.trainings * facts.train + 2 * (facts.dev + facts.test)) * probe.ms_per_text / 1000
    fits = _fit_seconds(candidate, facts)
    return facts.trainings * training + encoding + fits + (3 + LOADING) * costs.stage


def _fit_seconds(candidate: Candidate, facts: Facts) -> float:
    wider = max(1.0, min(FEATURES, facts.train) / MEASURED)
    return facts.trainings * facts.train * facts.classes * FIT_SECONDS[candidate.name] * wider


def step_seconds(probe: TrialResult, batch: int = BATCH) -> float:
    """Return the seconds of a step of fine-tuning, from the `ms_per_text` of a trial with the frozen encoder."""
    return BACKWARD * batch * probe.ms_per_text / 1000


def examined_rows(seconds: float, probe: TrialResult | None, facts: Facts, costs: Costs) -> int | None:
    """Return how many training texts can be examined in `seconds`, None if all can.

    `probe` is a trial of the fastest linear SVM.
    """
    wanted = min(facts.train, facts.examined)
    if probe is None:
        return min(MIN_EXAMINED, wanted)
    needed = EXAMINED * probe.seconds * wanted / probe.rows
    share = (seconds - 2 * costs.stage) / needed if needed else 1.0
    return None if share >= 1 else min(wanted, max(MIN_EXAMINED, int(share * wanted)))


def shortage(left: float, costs: Costs) -> float:
    """Return how many seconds are missing for a run of the fastest system; none are if it is negative."""
    return 3 * costs.stage + costs.end - left
