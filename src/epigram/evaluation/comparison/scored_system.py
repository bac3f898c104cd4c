"""What a comparison keeps of an evaluated system: its metrics, and what each row adds to its score."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epigram.core.arrays import Ragged
from epigram.core.errors import DataError
from epigram.evaluation.arrays import Ints
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.metric_rows import SMALLEST, likelihoods
from epigram.evaluation.metrics.primary import recorded_metric
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.records.results import SPLITS, Evaluated, Metrics
from epigram.evaluation.records.split_record import SplitRecord
from epigram.evaluation.tokens.tokens import LabelledWords

TRUTH = ("rows", "labels", "word_labels", "folds")
STEP = 10_000  # rows that are hashed at once


@dataclass(frozen=True)
class ScoredSystem:
    """Metrics of a system, and what each row of dev and test adds to the score that ranks the systems.

    `truth` has a digest of each array that is the same for all systems. `dev_loss` is the mean negative log-likelihood
    of the gold labels; None where labels of words are scored, or where a decoder selects the labels, whose numbers are
    no probabilities.
    """

    metrics: Metrics
    dev: ScoredRows
    test: ScoredRows
    truth: Mapping[str, str]
    dev_loss: float | None = None


def scored_system(evaluation: Evaluated) -> ScoredSystem:
    """Return the scored system of an evaluation."""
    dev, test = (_row_scores(evaluation.metrics, evaluation.split(name)) for name in SPLITS)
    return ScoredSystem(evaluation.metrics, dev, test, truth_of(evaluation), _dev_loss(evaluation))


def truth_of(evaluation: Evaluated) -> dict[str, str]:
    """Return a digest of each array of the rows and their gold labels; equal values have equal digests."""
    arrays = {split: evaluation.split(split).arrays() for split in SPLITS}
    metrics = evaluation.metrics
    found = {f"{split}_{name}": _digest(arrays[split].get(name)) for name in TRUTH for split in SPLITS}
    return found | {"metric": repr((metrics.score, metrics.cost))}


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
        for key, digest in truth.items():
            if digest != found[key]:
                raise DataError(
                    f"{first} and {other} were evaluated on different {key}: "
                    "run dvc repro to evaluate both on the same data"
                )


def _dev_loss(evaluation: Evaluated) -> float | None:
    labels = evaluation.dev.labels
    if evaluation.metrics.score == "token_f1" or evaluation.metrics.decision == "decoder" or not len(labels):
        return None
    found = likelihoods(evaluation.dev.probabilities, labels)  # one value per label, if there are several
    losses = -np.log(np.maximum(found, SMALLEST)).mean(0)  # mean over the seeds
    return float(losses.reshape(len(labels), -1).mean(1).mean())


def _row_scores(metrics: Metrics, split: SplitRecord) -> ScoredRows:
    """Return what each row of a split adds to the score that ranks the systems."""
    metric = recorded_metric(metrics)
    if metric.of_words and split.words is not None:
        gold = Ragged(split.words.labels, split.words.offsets)
        return LabelledWords.of(gold, split.words.predictions, seeds=len(metrics.seeds)).words.row_scores()
    thresholds = np.array([seed.thresholds for seed in metrics.seeds])
    known = split.probabilities, thresholds, metrics.decision, split.folds
    chosen = predict_labels(metrics.task, split.labels, *known, per_label=metric.per_label, prices=metric.prices)
    found: ScoredRows = metric.rows(chosen)
    return found
