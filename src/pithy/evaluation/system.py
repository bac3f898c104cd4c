"""Evaluates one system: everything that is known from its probabilities, the truth and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pithy.errors import ParameterError
from pithy.evaluation.arrays import Bools, Floats, Ints
from pithy.evaluation.calibration import calibrate, confidences, reliability
from pithy.evaluation.intervals import macro_f1_interval, score_interval
from pithy.evaluation.metrics import per_class
from pithy.evaluation.mistakes import surest_mistakes
from pithy.evaluation.outcomes import SCORE, Judged, judge, thresholds
from pithy.evaluation.record import ClassScores, Cost, Evaluation, Metrics, Predictions, SeedMetrics, Task
from pithy.evaluation.slices import slices
from pithy.settings import EvaluateSettings


@dataclass(frozen=True, kw_only=True)
class Split:
    """The truth of one split; labels are (N,) class numbers or, multi-label, (N, C) zeros and ones."""

    labels: Ints
    rows: Ints  # (N,) row numbers in the corpus
    texts: Sequence[str]  # N, in the order of the rows
    in_train: Bools  # (N,) this text, exactly, is also in the training set


def evaluate_system(
    name: str,
    *,
    task: Task,
    labels: Sequence[str],
    seeds: Sequence[int],
    dev: Split,
    test: Split,
    dev_probabilities: Floats,
    test_probabilities: Floats,
    costs: Sequence[Cost],
    settings: EvaluateSettings,
) -> Evaluation:
    """All numbers of one system from its probabilities (K, N, C); `seeds` and `costs` have one entry a seed.

    Raises ParameterError where a seed predicts values that are not numbers, ValueError where shapes do not fit.
    """
    for split, probabilities in ((dev, dev_probabilities), (test, test_probabilities)):
        _check(name, seeds, probabilities, (len(seeds), len(split.rows), len(labels)))
    cuts = thresholds(task, dev.labels, dev_probabilities)
    on_dev = judge(task, dev.labels, dev_probabilities, cuts)
    on_test = judge(task, test.labels, test_probabilities, cuts)
    return Evaluation(
        metrics=_metrics(
            name, labels, test, on_dev, on_test, _per_seed(seeds, costs, cuts, on_dev, on_test, settings), settings
        ),
        predictions=Predictions(
            dev_probabilities=np.ascontiguousarray(dev_probabilities, dtype=np.float32),
            test_probabilities=np.ascontiguousarray(test_probabilities, dtype=np.float32),
            dev_labels=dev.labels,
            test_labels=test.labels,
            dev_rows=dev.rows,
            test_rows=test.rows,
            test_in_train=test.in_train,
        ),
    )


def _check(name: str, seeds: Sequence[int], probabilities: Floats, shape: tuple[int, int, int]) -> None:
    if probabilities.shape != shape:
        raise ValueError(f"{name}: probabilities are {probabilities.shape}, not {shape}")
    for seed, values in zip(seeds, probabilities, strict=True):
        if not np.isfinite(values).all():
            raise ParameterError(
                f"systems.{name}: seed {seed} predicts values that are not numbers: its training diverged; "
                f"lower its learning rate"
            )


def _per_seed(
    seeds: Sequence[int],
    costs: Sequence[Cost],
    cuts: Floats,
    dev: Judged,
    test: Judged,
    settings: EvaluateSettings,
) -> list[SeedMetrics]:
    columns = zip(seeds, costs, cuts, dev.scores(), test.scores(), dev.probabilities, test.probabilities, strict=True)
    return [
        SeedMetrics(
            seed=seed,
            dev=dev_scores,
            test=test_scores,
            calibration=calibrate(test.task, dev_p, dev.gold, test_p, test.gold, settings.bins),
            cost=cost,
            thresholds=cut.tolist(),
        )
        for seed, cost, cut, dev_scores, test_scores, dev_p, test_p in columns
    ]


def _metrics(
    name: str,
    labels: Sequence[str],
    truth: Split,
    dev: Judged,
    test: Judged,
    seeds: list[SeedMetrics],
    settings: EvaluateSettings,
) -> Metrics:
    drawn: dict[str, Any] = {"resamples": settings.resamples, "confidence": settings.confidence}
    return Metrics(
        system=name,
        task=test.task,
        score=SCORE[test.task],
        confidence=settings.confidence,
        labels=list(labels),
        seeds=seeds,
        dev=_mean([seed.dev for seed in seeds]),
        test=_mean([seed.test for seed in seeds]),
        dev_score=score_interval(dev.outcomes(), **drawn),
        test_score=score_interval(test.outcomes(), **drawn),
        test_macro_f1=macro_f1_interval(test.gold, test.predicted, **drawn),
        classes=_classes(labels, test),
        confusion=test.confusion().sum(0).tolist() if test.task == "single" else [],
        calibration=_mean([seed.calibration for seed in seeds]),
        reliability=reliability(*confidences(test.task, test.probabilities, test.gold), settings.bins),
        slices=slices(test.outcomes(), truth.texts, truth.in_train, **drawn),
        mistakes=surest_mistakes(test, labels, truth.rows, truth.texts, settings.surest_errors),
    )


def _mean(parts: Sequence[Any]) -> Any:
    """The mean of dataclasses of numbers, field by field."""
    kind = type(parts[0])
    return kind(**{f.name: float(np.mean([getattr(part, f.name) for part in parts])) for f in fields(kind)})


def _classes(labels: Sequence[str], test: Judged) -> list[ClassScores]:
    support = test.gold.sum(0)
    each = per_class((test.predicted & test.gold).sum(1), test.predicted.sum(1), support)
    columns = zip(labels, each.precision.mean(0), each.recall.mean(0), each.f1.mean(0), support, strict=True)
    return [
        ClassScores(label=label, precision=float(p), recall=float(r), f1=float(f), support=int(n))
        for label, p, r, f, n in columns
    ]
