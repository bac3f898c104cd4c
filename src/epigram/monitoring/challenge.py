"""Decision whether a challenger replaces the champion, from both models' predictions on the same development texts.

The challenger is promoted if it is better by more than chance (a paired test) and no class loses much. If ties are
accepted, it need only not be worse: where few texts judge, the model that has learned more is the better guess. The
loss of a class is measured in F1, which falls both if texts of the class are missed and if others are assigned to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from epigram.core.rounding import clearly_above
from epigram.evaluation.arrays import Floats
from epigram.evaluation.comparison.formats import percent, points, probability, score_text
from epigram.evaluation.comparison.sensitivity import sensitivity
from epigram.evaluation.comparison.significance import verdict
from epigram.evaluation.metrics.counts import per_class
from epigram.evaluation.metrics.primary import PrimaryMetric
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.metrics.scoring import SplitPredictions

Promote = Literal["better", "not_worse"]


@dataclass(frozen=True, kw_only=True)
class ClassChange:
    """F1 of one class for the champion and the challenger; `rows` is its number of development texts."""

    label: str
    rows: int
    champion: float
    challenger: float


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """Whether the challenger is promoted, with the reason in one line."""

    promoted: bool
    reason: str
    p: float | None = None
    classes: tuple[ClassChange, ...] = ()


def decide(
    challenger: SplitPredictions,
    champion: SplitPredictions,
    labels: Sequence[str],
    *,
    metric: PrimaryMetric,
    names: tuple[str, str],
    alpha: float,
    margin: float,
    promote: Promote = "better",
) -> Promotion:
    """Compare two single models (K = 1) on the same rows by `metric`; `names` are the challenger's and the champion's.

    `alpha` is the significance level, `margin` the largest accepted loss of a class in F1. With `promote: not_worse`, a
    difference that may be chance is accepted.
    """
    new, old = metric.rows(challenger), metric.rows(champion)
    tested = verdict(new, old, alpha)
    changes = _changes(challenger, champion, labels)
    values = [score_text(metric.name, float(each.scores()[0]), "%") for each in (new, old)]
    scores = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
    scores_text = f"{scores[0]}, champion {scores[1]}, {len(challenger.gold):,} development texts"
    p = f"p = {probability(tested.p)}".replace("= <", "<")
    if tested.outcome == "worse":
        return Promotion(promoted=False, reason=f"worse: {scores_text}, {p}", p=tested.p, classes=changes)
    if tested.outcome != "better" and promote == "better":
        needed = _needed(new, old, len(challenger.gold), alpha, metric.name)
        reason = f"not significantly better: {scores_text}, {p}{needed}; retrain.promote: not_worse would accept it"
        return Promotion(promoted=False, reason=reason, p=tested.p, classes=changes)
    worst = max(changes, key=lambda change: change.champion - change.challenger)
    if clearly_above(worst.champion - worst.challenger, margin):
        drop = f"from {percent(worst.champion)} to {percent(worst.challenger)}, margin {percent(margin)}"
        reason = f"F1 of class {worst.label!r} ({worst.rows:,} texts) drops {drop}, although {scores_text}, {p}"
        return Promotion(promoted=False, reason=reason, p=tested.p, classes=changes)
    kind = "better" if tested.outcome == "better" else "not worse"
    return Promotion(promoted=True, reason=f"{kind}: {scores_text}, {p}", p=tested.p, classes=changes)


def _needed(new: ScoredRows, old: ScoredRows, rows: int, alpha: float, metric: str) -> str:
    """Return which difference would be significant, and how many texts the present one needs."""
    found = sensitivity(new, old, rows, alpha)
    if found.difference is None:
        text = f"; with {rows:,} texts, no difference is significant"
    else:
        text = f"; with {rows:,} texts, a difference of about {points(metric, found.difference)} would be significant"
    if found.rows is None:
        return text
    present = points(metric, float(new.scores().mean() - old.scores().mean()))
    return f"{text}; {present} need about {float(f'{found.rows:.2g}'):,.0f} texts"


def _changes(
    challenger: SplitPredictions, champion: SplitPredictions, labels: Sequence[str]
) -> tuple[ClassChange, ...]:
    """Return the change of every class that occurs in the development set."""
    rows, after, before = champion.counts().support, _f1(challenger), _f1(champion)
    return tuple(
        ClassChange(label=labels[c], rows=int(rows[c]), champion=float(before[c]), challenger=float(after[c]))
        for c in np.flatnonzero(rows).tolist()
    )


def _f1(predictions: SplitPredictions) -> Floats:
    counts = predictions.counts()
    return per_class(counts.hits[0], counts.predicted[0], counts.support).f1
