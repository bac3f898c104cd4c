"""Evaluation of one system from its predictions, the gold labels and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epigram.core.errors import ParameterError
from epigram.evaluation.arrays import Floats
from epigram.evaluation.levels import level_scores
from epigram.evaluation.metrics.calibration import calibrate, coverage_curve, reliability
from epigram.evaluation.metrics.counts import class_scores, mean, per_class
from epigram.evaluation.metrics.decisions import seed_thresholds
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.metric_rows import label_rows
from epigram.evaluation.metrics.mistakes import most_confident_errors
from epigram.evaluation.metrics.registry import macro_f1
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.metrics.slices import slices
from epigram.evaluation.records.results import (
    Calibration,
    ClassifierAccuracy,
    ClassScores,
    Cost,
    Decision,
    Evaluated,
    Metrics,
    SeedMetrics,
)
from epigram.evaluation.records.split_record import SplitRecord, WordRecord
from epigram.evaluation.settings import EvaluateSettings
from epigram.evaluation.splits import GoldSplit, ScoredSplit, SystemOutput, Target, score_split
from epigram.evaluation.tokens.token_metrics import sentence_f1, token_metrics


def evaluate_system(
    name: str,
    target: Target,
    *,
    seeds: Sequence[int],
    dev: GoldSplit,
    test: GoldSplit,
    dev_output: SystemOutput,
    test_output: SystemOutput,
    costs: Sequence[Cost],
    settings: EvaluateSettings,
    alone: Sequence[list[ClassifierAccuracy]] | None = None,
    temperatures: Sequence[float] | None = None,
    decision: Decision = "threshold",
    thresholds: Floats | None = None,
) -> Evaluated:
    """Return all metrics of one system from its predictions.

    `seeds`, `costs`, `alone` and `temperatures` have one entry per seed. A model divides its logits by its temperature,
    by default 1. `decision` is what selects the labels of a text that may have several. The models' `thresholds` (K, C)
    are tuned on dev by default.

    Raises ParameterError if a seed predicts NaN or infinite values, ValueError if shapes do not match.
    """
    for split, output in ((dev, dev_output), (test, test_output)):
        _check_probabilities(name, seeds, output.probabilities, (len(seeds), len(split.rows), len(target.labels)))
    if thresholds is None:
        per_label = target.metric.per_label
        thresholds = seed_thresholds(target.task, dev.labels, dev_output.probabilities, decision, per_label=per_label)
    on_dev = score_split(target, dev, dev_output, thresholds, decision)
    on_test = score_split(target, test, test_output, thresholds, decision)
    calibration = _calibrations(on_test, temperatures or [1.0] * len(seeds), settings.bins)
    per_seed = _per_seed(target, seeds, costs, alone or [[] for _ in seeds], thresholds, on_dev, on_test, calibration)
    return Evaluated(
        metrics=_metrics(name, target, on_dev, on_test, per_seed, settings, decision),
        dev=_record(dev, dev_output),
        test=_record(test, test_output),
    )


def _check_probabilities(name: str, seeds: Sequence[int], probabilities: Floats, shape: tuple[int, int, int]) -> None:
    if probabilities.shape != shape:
        raise ValueError(f"{name}: probabilities are {probabilities.shape}, not {shape}")
    for seed, known in zip(seeds, probabilities, strict=True):
        if not np.isfinite(known).all():
            raise ParameterError(
                f"systems.{name}: seed {seed} predicts NaN or infinite values because its training diverged; "
                f"lower its learning rate"
            )


def _record(truth: GoldSplit, output: SystemOutput) -> SplitRecord:
    """Return what is kept of one split, in single precision."""
    words = None
    if truth.words is not None:
        gold = truth.words.labels
        words = WordRecord(labels=gold.values, offsets=gold.offsets, predictions=output.words)
    return SplitRecord(
        probabilities=np.ascontiguousarray(output.probabilities, np.float32),
        labels=truth.labels,
        rows=truth.rows,
        words=words,
        folds=truth.folds,
    )


def _per_seed(
    target: Target,
    seeds: Sequence[int],
    costs: Sequence[Cost],
    alone: Sequence[list[ClassifierAccuracy]],
    thresholds: Floats,
    dev: ScoredSplit,
    test: ScoredSplit,
    calibration: Sequence[Calibration],
) -> list[SeedMetrics]:
    columns: dict[str, Sequence[Any]] = {
        "seed": seeds,
        "dev": dev.texts.scores(),
        "test": test.texts.scores(),
        "dev_score": dev.ranked.scores().tolist(),
        "test_score": test.ranked.scores().tolist(),
        "calibration": calibration,
        "cost": costs,
        "thresholds": thresholds.tolist(),
        "dev_tokens": dev.token_scores(),
        "test_tokens": test.token_scores(),
        "test_sentences": test.sentence_scores(target.plain),
        "alone": alone,
    }
    return [SeedMetrics(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def _calibrations(test: ScoredSplit, temperatures: Sequence[float], bins: int) -> list[Calibration]:
    one = test.truth.folds is None
    return [calibrate(test.texts.seed(n), each, bins, one=one) for n, each in enumerate(temperatures)]


def _metrics(
    name: str,
    target: Target,
    dev: ScoredSplit,
    test: ScoredSplit,
    seeds: list[SeedMetrics],
    settings: EvaluateSettings,
    decision: Decision,
) -> Metrics:
    intervals: dict[str, Any] = {"resamples": settings.resamples, "confidence": settings.confidence}
    texts, truth = test.texts, test.truth
    return Metrics(
        system=name,
        task=target.task,
        score=target.metric.name,
        cost=target.metric.cost,
        confidence=settings.confidence,
        labels=list(target.labels),
        seeds=seeds,
        dev=mean([seed.dev for seed in seeds]),
        test=mean([seed.test for seed in seeds]),
        dev_score=score_interval(dev.ranked, **intervals),
        test_score=score_interval(test.ranked, **intervals),
        test_macro_f1=score_interval(
            replace(label_rows(texts, statistic=macro_f1), spread=test.ranked.spread), **intervals
        ),
        classes=_classes(target.labels, texts),
        confusion=texts.confusion(),
        calibration=mean([seed.calibration for seed in seeds]),
        reliability=reliability(*texts.confidences(), settings.bins),
        slices=slices(test.ranked, truth.texts, truth.in_train, truth.columns, **intervals),
        mistakes=most_confident_errors(texts, target.labels, truth.rows, truth.texts, settings.surest_errors),
        tokens=token_metrics(test, seeds, **intervals),
        coverage=coverage_curve(dev.texts, texts),
        decision=decision,
        hierarchy=target.hierarchy,
        levels=level_scores(texts, target.labels, target.hierarchy, test.ranked.spread, **intervals),
        **sentence_f1(target, test, seeds, **intervals),
    )


def _classes(labels: Sequence[str], test: SplitPredictions) -> list[ClassScores]:
    counts = test.counts()
    return class_scores(labels, per_class(counts.hits, counts.predicted, counts.support), counts.support)
