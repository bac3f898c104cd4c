"""Metrics that exist only if the corpus labels words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epigram.evaluation.examples import examples
from epigram.evaluation.intervals import score_interval
from epigram.evaluation.metrics import class_scores, confusion, mean, per_class
from epigram.evaluation.results import ClassScores, SeedMetrics, TokenMetrics
from epigram.evaluation.single_label import SingleLabelPredictions
from epigram.evaluation.splits import ScoredSplit, Target
from epigram.evaluation.tokens import LabelledWords


def token_metrics(test: ScoredSplit, seeds: Sequence[SeedMetrics], **intervals: Any) -> TokenMetrics | None:
    """Return the metrics of the test words; None if the system labels none. `intervals` are the interval settings."""
    truth, labelled = test.truth.words, test.words
    if truth is None or labelled is None:
        return None
    return TokenMetrics(
        labels=list(truth.names),
        dev=mean([seed.dev_tokens for seed in seeds if seed.dev_tokens]),
        test=mean([seed.test_tokens for seed in seeds if seed.test_tokens]),
        test_f1=score_interval(labelled.words.row_scores(), **intervals),
        test_f05=score_interval(labelled.words.row_scores(beta=0.5), **intervals),
        test_span_f1=score_interval(labelled.spans.row_scores(), **intervals),
        classes=_classes(truth.names, labelled),
        examples=examples(truth, labelled, test.truth.rows),
    )


def sentence_f1(target: Target, test: ScoredSplit, **intervals: Any) -> dict[str, Any]:
    """Return the micro-F1 of the text labels other than the plain label, and the name of the plain label.

    This is F1* of Pislar and Rei, 2020, Table 1. Empty if the corpus has no token labels or is multi-label.
    """
    if test.truth.words is None or not isinstance(test.texts, SingleLabelPredictions):
        return {}
    interval = score_interval(test.texts.row_scores_without(target.plain), **intervals)
    return {"sentence_f1": interval, "plain": target.labels[target.plain]}


def _classes(names: Sequence[str], labelled: LabelledWords) -> list[ClassScores]:
    matrices = np.stack([confusion(labelled.gold.values, seed, len(names)) for seed in labelled.predicted])  # (K, S, S)
    hits, support = np.diagonal(matrices, axis1=1, axis2=2), matrices[0].sum(1)
    return class_scores(names, per_class(hits, matrices.sum(1), support), support)
