"""One split of a corpus: what is true of it, what a system says of it, and both side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pithy.evaluation.arrays import Bools, Floats, Ints
from pithy.evaluation.outcomes import Judged, Outcomes, judge
from pithy.evaluation.record import Task, TokenScores
from pithy.evaluation.tokens import Labelled
from pithy.evaluation.words import Words


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is predicted of a text. `tokens_only`: its label is inferred from its words', by which systems are ranked.

    `plain` is the class of the texts without a marked word, where the corpus labels words.
    """

    task: Task
    labels: Sequence[str]
    tokens_only: bool = False
    plain: int = 0


@dataclass(frozen=True, kw_only=True)
class Split:
    """The truth of one split; labels are (N,) class numbers or, multi-label, (N, C) zeros and ones."""

    labels: Ints
    rows: Ints  # (N,) row numbers in the corpus
    texts: Sequence[str]  # N, in the order of the rows
    in_train: Bools  # (N,) this text, exactly, is also in the training set
    words: Words | None = None  # where the corpus labels them


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a system says: probabilities (K, N, C), and label numbers (K, T) of the words where it labels them."""

    probabilities: Floats
    words: Ints | None = None


@dataclass(frozen=True)
class Beside:
    """The truth beside what a system says; `ranked` is what each row adds to the score that systems are ranked by."""

    truth: Split
    texts: Judged
    words: Labelled | None  # None where the system labels none
    ranked: Outcomes

    def token_scores(self) -> Sequence[TokenScores | None]:
        """Scores of every seed's words."""
        return [None] * len(self.texts.predicted) if self.words is None else self.words.scores()


def beside(target: Target, truth: Split, said: Said, cuts: Floats) -> Beside:
    """Judge what a system says; `cuts` (K, C) are the thresholds of a multi-label task."""
    texts = judge(target.task, truth.labels, said.probabilities, cuts)
    if truth.words is None:
        return Beside(truth, texts, None, texts.outcomes())
    seeds, gold = len(texts.predicted), truth.words
    words = Labelled.of(gold.labels, said.words, gold.offsets, seeds=seeds, names=gold.names)
    ranked = words.words.outcomes() if target.tokens_only else texts.outcomes()
    return Beside(truth, texts, None if said.words is None else words, ranked)
