"""What a comparison keeps of an evaluated system: its metrics, and what each row adds to its score."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epigram.core.errors import DataError
from epigram.core.ragged import Ragged
from epigram.evaluation.arrays import Ints
from epigram.evaluation.averaged_words import SMALLEST
from epigram.evaluation.decisions import predict_labels
from epigram.evaluation.likelihoods import of_texts
from epigram.evaluation.results import Evaluation, Metrics, Predictions
from epigram.evaluation.scoring import RowScores
from epigram.evaluation.stored_probabilities import SplitName, probabilities_of
from epigram.evaluation.tokens import LabelledWords

TRUTH = ("dev_rows", "test_rows", "dev_labels", "test_labels", "dev_word_labels", "test_word_labels", "dev_folds")
STEP = 10_000  # rows that are hashed at once


@dataclass(frozen=True)
class ScoredSystem:
    """Metrics of a system, and what each row of dev and test adds to the score that ranks the systems.

    `truth` has a digest of each array that is the same for all systems. `dev_loss` is the mean negative log-likelihood
    of the gold labels; None where labels of words are scored, or where a decoder selects the labels, whose numbers are
    no probabilities.
    """

    metrics: Metrics
    dev: RowScores
    test: RowScores
    truth: Mapping[str, str]
    dev_loss: float | None = None


def scored_system(evaluation: Evaluation) -> ScoredSystem:
    """Return the scored system of an evaluation."""
    dev, test = (_row_scores(evaluation, "dev"), _row_scores(evaluation, "test"))
    return ScoredSystem(evaluation.metrics, dev, test, truth_of(evaluation.predictions), _dev_loss(evaluation))


def truth_of(predictions: Predictions) -> dict[str, str]:
    """Return a digest of each array of the rows and their gold labels; equal values have equal digests."""
    return {name: _digest(getattr(predictions, name)) for name in TRUTH}


def _digest(values: Ints | None) -> str:
    if values is None:
        return ""
    found = hashlib.sha256(repr(values.shape).encode())
    for start in range(0, len(values), STEP):
        found.update(values[start : start + STEP].astype(np.int64).tobytes())
    return found.hexdigest()


def check_same_rows(systems: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Raise DataError if the systems, each a name and its `truth_of`, were evaluated on different rows."""
    first, truth = systems[0]
    for other, found in systems[1:]:
        for key in TRUTH:
            if truth[key] != found[key]:
                raise DataError(
                    f"{first} and {other} were evaluated on different {key}: "
                    "run dvc repro to evaluate both on the same data"
                )


def _dev_loss(evaluation: Evaluation) -> float | None:
    labels = evaluation.predictions.dev_labels
    if evaluation.metrics.score == "token_f1" or evaluation.metrics.decision == "decoder" or not len(labels):
        return None
    likelihoods = of_texts(probabilities_of(evaluation, "dev"), labels).values  # of each label, if there are several
    losses = -np.log(np.maximum(likelihoods, SMALLEST)).mean(0)  # over the seeds
    return float(losses.reshape(len(labels), -1).mean(1).mean())


def _row_scores(evaluation: Evaluation, split: SplitName) -> RowScores:
    """Return what each row adds to the score that ranks the systems."""
    predictions, metrics = evaluation.predictions, evaluation.metrics
    fields = ("labels", "word_labels", "word_predictions", "word_offsets", "folds")
    labels, gold, predicted, offsets, folds = (getattr(predictions, f"{split}_{name}") for name in fields)
    if metrics.score == "token_f1":
        return LabelledWords.of(Ragged(gold, offsets), predicted, seeds=len(metrics.seeds)).words.row_scores()
    known, thresholds = probabilities_of(evaluation, split), np.array([seed.thresholds for seed in metrics.seeds])
    return predict_labels(metrics.task, labels, known, thresholds, metrics.decision, folds).row_scores()
