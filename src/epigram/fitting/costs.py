"""Estimated seconds of a candidate, from the speed of its encoder, or from a trial on few texts.

The constants were measured on agnews_43k, nlpcc2017, sst5 and 20newsgroups, on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epigram.fitting.systems import BATCH, Candidate, Facts
from epigram.training.trials.trial import TrialResult

# Seconds of the linear fits for each text and class, all penalties together, on MEASURED numbers of each text.
# A system reads four layers of MiniLM, 1,536 numbers, or less of other encoders, but never more numbers than texts.
MEASURED, FEATURES = 384, 1_536
FIT_SECONDS: Mapping[str, float] = {"embedding_linear": 1e-4, "hybrid_linear": 1.5e-4, "setfit": 1e-4}
EXAMINED, MIN_EXAMINED = 4.0, 500  # times the fit of an SVM: the examination of the texts; the least of them
SEARCHED = 8.0  # times the fit of an SVM: the search for its settings
BACKWARD = 3.0  # times a prediction: a step of fine-tuning, for each text
PAIRS_SLACK = 2.0  # times the estimate of a training on pairs; 71 s were measured where it was below 43 s
STEP, LOADING = 0.2, 1.0  # seconds of training, pruning and evaluation besides their work, and of loading the encoder
TIMED = 256  # texts that take as long as the measurement of the speed, if train has folds
EPOCHS = (8, 6, 4, 3, 2, 1)
MARGIN = 0.85  # share of the remaining time that the estimate of a training by gradient may fill


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds of a training step, and of the prediction of a text."""

    step: float
    text: float

    @classmethod
    def of_encoder(cls, text: float, batch: int = BATCH) -> Pace:
        """Return the pace of fine-tuning an encoder that predicts a text in `text` seconds."""
        return cls(step=BACKWARD * batch * text, text=text)

    @classmethod
    def of_trial(cls, candidate: Candidate, result: TrialResult) -> Pace:
        """Return the pace of a trial: a step without the evaluations, but at least a prediction of its texts."""
        text = result.ms_per_text / 1000
        evaluated = (result.evaluations or candidate.evaluations(result.rows)) * result.held_out * text
        least = text * int(candidate.system.train["batch_size"])
        steps = result.steps or candidate.steps(result.rows)
        return cls(step=max(least, (result.seconds - evaluated) / steps), text=text)


def linear_seconds(trial: TrialResult, facts: Facts) -> float:
    """Return the seconds of a linear SVM whose settings are searched in each fold, by a trial with given settings."""
    fits = SEARCHED * max(1, facts.folds) * trial.seconds * facts.train / trial.rows
    return fits + facts.predicted * trial.ms_per_text / 1000 + 3 * STEP


def frozen_seconds(name: str, text: float, facts: Facts) -> float:
    """Return the seconds of a linear head on a frozen encoder that predicts a text in `text` seconds.

    Each text of train is encoded once for all folds and the final fit, each text of dev and test at most twice.
    """
    texts = facts.train + 2 * facts.dev + facts.test + TIMED
    return texts * text + _fit_seconds(name, facts) + 3 * STEP + LOADING


def pairs_seconds(candidate: Candidate, text: float, facts: Facts) -> float:
    """Return the seconds of a linear head on an encoder that is trained on pairs, for each fold and the final fit.

    All texts of train are encoded by each of these encoders.
    """
    pace = Pace.of_encoder(text, candidate.system.train["batch_size"])
    encoded = facts.trainings * facts.train + 2 * (facts.dev + facts.test)
    training = facts.trainings * candidate.steps(facts.train) * pace.step
    return PAIRS_SLACK * (training + encoded * text + _fit_seconds(candidate.name, facts) + 3 * STEP + LOADING)


def _fit_seconds(name: str, facts: Facts) -> float:
    wider = max(1.0, min(FEATURES, facts.train) / MEASURED)
    return facts.trainings * facts.train * facts.classes * FIT_SECONDS[name] * wider


def training_seconds(candidate: Candidate, pace: Pace, rows: int, *, trainings: int, held_out: int) -> float:
    """Return the seconds of trainings on `rows` texts each, which evaluate on `held_out` texts together."""
    steps, evaluations = candidate.steps(rows), candidate.evaluations(rows)
    return trainings * steps * pace.step + evaluations * held_out * pace.text


def lengthened(candidate: Candidate, pace: Pace, facts: Facts, left: float) -> Candidate | None:
    """Return the candidate with as many epochs as can be trained in `left` seconds, None if not even one can."""
    variants = (candidate.with_train(epochs=epochs) for epochs in EPOCHS)
    return next((each for each in variants if gradient_seconds(each, pace, facts) <= left), None)


def shortest_seconds(candidate: Candidate, pace: Pace, facts: Facts) -> float:
    """Return the seconds of a training by gradient with the fewest epochs."""
    return gradient_seconds(candidate.with_train(epochs=min(EPOCHS)), pace, facts)


def gradient_seconds(candidate: Candidate, pace: Pace, facts: Facts) -> float:
    """Return the seconds of all trainings by gradient of a candidate and of its predictions, with a margin."""
    needed = training_seconds(candidate, pace, facts.train, trainings=facts.trainings, held_out=facts.held_out)
    return (needed + 3 * STEP + facts.predicted * pace.text) / MARGIN


def examined_rows(seconds: float, trial: TrialResult, rows: int) -> int:
    """Return how many of `rows` training texts can be examined in `seconds`, by a trial of the linear SVM."""
    needed = EXAMINED * trial.seconds * rows / trial.rows
    return rows if needed <= seconds else min(rows, max(MIN_EXAMINED, int(rows * seconds / needed)))
