"""Metrics that exist only if the corpus labels words, and a few test rows with their words labelled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from epigram.evaluation.arrays import Ints
from epigram.evaluation.metrics.counts import class_scores, confusion, mean, per_class
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.single_label import SingleLabelPredictions
from epigram.evaluation.records.results import ClassScores, Example, Piece, SeedMetrics, TokenMetrics
from epigram.evaluation.splits import ScoredSplit, Target
from epigram.evaluation.tokens.tokens import LabelledWords
from epigram.evaluation.tokens.word_predictions import Words

EXAMPLES = 8
MAX_WORDS = 40  # maximum number of words of a shown row
MAX_WORD_CHARACTERS = 40  # maximum number of characters shown of a word


def examples(truth: Words, labelled: LabelledWords, rows: Ints) -> list[Example]:
    """Return evenly spaced rows that have a marked word and at most MAX_WORDS words."""
    counts = labelled.gold.lengths
    marked = labelled.words.gold
    fit = np.flatnonzero((counts <= MAX_WORDS) & (marked > 0))
    chosen = fit[np.linspace(0, len(fit) - 1, min(EXAMPLES, len(fit))).astype(int)]
    return [Example(row=int(rows[n]), pieces=_pieces(truth, labelled, n)) for n in chosen.tolist()]


def _pieces(truth: Words, labelled: LabelledWords, n: int) -> list[Piece]:
    part = slice(*labelled.gold.offsets[n : n + 2])
    votes = labelled.predicted[:, part, None] == np.arange(len(truth.names))  # (K, words, S)
    pairs = zip(votes.sum(0).argmax(1).tolist(), labelled.gold.values[part].tolist(), truth.texts[n], strict=True)
    return [
        Piece(
            text=truth.separator.join(text[:MAX_WORD_CHARACTERS] for *_, text in run),
            predicted=truth.names[predicted],
            gold=truth.names[gold],
        )
        for (predicted, gold), run in groupby(pairs, key=lambda word: word[:2])
    ]


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


def sentence_f1(target: Target, test: ScoredSplit, seeds: Sequence[SeedMetrics], **intervals: Any) -> dict[str, Any]:
    """Return the scores of the text labels other than the plain label, and the name of the plain label.

    These are P*, R* and F1* of Pislar and Rei, 2020, Table 1. Empty if the corpus has no token labels or is
    multi-label.
    """
    if not isinstance(test.texts, SingleLabelPredictions) or not (known := [each.test_sentences for each in seeds])[0]:
        return {}
    interval = score_interval(test.texts.row_scores_without(target.plain), **intervals)
    return {"sentence_f1": interval, "test_sentences": mean(known), "plain": target.labels[target.plain]}


def _classes(names: Sequence[str], labelled: LabelledWords) -> list[ClassScores]:
    matrices = np.stack([confusion(labelled.gold.values, seed, len(names)) for seed in labelled.predicted])  # (K, S, S)
    hits, support = np.diagonal(matrices, axis1=1, axis2=2), matrices[0].sum(1)
    return class_scores(names, per_class(hits, matrices.sum(1), support), support)
