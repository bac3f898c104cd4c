"""One split of a corpus: its gold labels, a system's predictions, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.intervals import fold_spread
from epigram.evaluation.metrics.primary import PrimaryMetric
from epigram.evaluation.metrics.registry import sentence_scores
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.records.results import Decision, SentenceScores, Task, TokenScores
from epigram.evaluation.tokens.tokens import LabelledWords
from epigram.evaluation.tokens.word_predictions import Words, most_likely


@dataclass(frozen=True, kw_only=True)
class Target:
    """Prediction target of a corpus.

    `metric` ranks the systems. `plain` is the class of texts without a marked word, if the corpus labels words.
    `hierarchy` is the separator of levels in the labels, if they have levels.
    """

    task: Task
    labels: Sequence[str]
    metric: PrimaryMetric
    plain: int = 0
    hierarchy: str = ""


@dataclass(frozen=True, kw_only=True)
class GoldSplit:
    """Gold labels of one split; labels are (N,) class numbers or, for multi-label, (N, C) zeros and ones.

    `folds` are the rows' folds if a cross-validation of train replaces the split. `groups` has the same number for rows
    whose texts differ at most in case, width, punctuation or whitespace.
    """

    labels: Ints
    rows: Ints  # (N,) row numbers in the corpus
    texts: Sequence[str]  # N, in the order of the rows
    in_train: Bools  # (N,) whether exactly this text is also in the training set
    words: Words | None = None  # None if the corpus labels no words
    folds: Ints | None = None  # (N,)
    groups: Ints | None = None  # (N,)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # (N,) values each, of columns to report by


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """Probabilities (K, N, C) of a system and, if it labels words, the label numbers (K, T) of all words."""

    probabilities: Floats
    words: Ints | None = None

    @classmethod
    def of(cls, probabilities: Floats, words: Sequence[Floats]) -> SystemOutput:
        """Return the predictions with the word probabilities (T, S) of each seed; without any, no word is labelled."""
        labelled = np.stack([most_likely(each) for each in words]) if words else None
        return cls(probabilities=probabilities, words=labelled)


@dataclass(frozen=True)
class ScoredSplit:
    """Gold labels with a system's predictions; `ranked` is what each row adds to the score that ranks the systems."""

    truth: GoldSplit
    texts: SplitPredictions
    words: LabelledWords | None  # None if the system labels no words
    ranked: ScoredRows

    def token_scores(self) -> Sequence[TokenScores | None]:
        """Return the word scores of every seed; None per seed if the system labels no words."""
        return [None] * len(self.texts.predicted) if self.words is None else self.words.scores()

    def sentence_scores(self, plain: int) -> Sequence[SentenceScores | None]:
        """Return P*, R* and F1* of every seed; None per seed if the corpus labels no words or is multi-label."""
        counts = self.texts.counts()
        if self.truth.words is None or counts.multi:
            return [None] * len(self.texts.predicted)
        return sentence_scores(counts, plain)


def score_split(
    target: Target, truth: GoldSplit, output: SystemOutput, thresholds: Floats, decision: Decision
) -> ScoredSplit:
    """Compare a system's predictions with the gold labels; `thresholds` (K, C) are for a multi-label task."""
    given = truth.labels, output.probabilities, thresholds, decision, truth.folds
    metric = target.metric
    texts = predict_labels(target.task, *given, per_label=metric.per_label, prices=metric.prices)
    scores = metric.rows(texts, fold_spread(truth.folds))
    if truth.words is None:
        return ScoredSplit(truth, texts, None, scores)
    seeds, gold = len(texts.predicted), truth.words
    words = LabelledWords.of(gold.labels, output.words, seeds=seeds, names=gold.names)
    ranked = words.words.row_scores() if metric.of_words else scores
    return ScoredSplit(truth, texts, None if output.words is None else words, ranked)
