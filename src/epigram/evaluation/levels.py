"""Accuracy and macro-F1 of each level of labels that are paths, such as goods/phone.

The predicted label of a text is the same for all levels: a level compares its first parts with the gold label's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.label_paths import deepest_level, level_names
from epigram.evaluation.arrays import Ints
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.metric_rows import Decided, Judged, accuracy_rows
from epigram.evaluation.metrics.registry import macro_f1
from epigram.evaluation.metrics.row_scores import LabelScores
from epigram.evaluation.records.results import LevelScores


def label_levels(labels: Sequence[str], separator: str) -> list[Ints]:
    """Return for each level, from the top, the number (C,) of the label that each of the C labels is on this level.

    On a level below its last part, a label is itself.
    """
    levels = []
    for level in range(1, deepest_level(labels, separator) + 1):
        names = level_names(labels, separator, level)
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
        levels.append(np.array([numbers[names[label]] for label in labels]))
    return levels


def level_scores(
    judged: Judged, labels: Sequence[str], separator: str, spread: float, *, resamples: int, confidence: float
) -> list[LevelScores]:
    """Return the scores of each level with intervals, the top level first; none without a `separator`.

    `spread` widens the intervals, see `fold_spread`.
    """
    found = []
    for level, numbers in enumerate(label_levels(labels, separator) if separator else [], 1):
        count = int(numbers.max()) + 1
        multi = judged.gold.ndim == 2
        gold, predicted = (_on_level(each, numbers, count, multi=multi) for each in (judged.gold, judged.predicted))
        decided = Decided(gold, predicted, judged.probabilities)
        rows = accuracy_rows(decided), LabelScores(gold, predicted, count, macro_f1)
        accuracy, f1 = (
            score_interval(replace(each, spread=spread), resamples=resamples, confidence=confidence) for each in rows
        )
        found.append(LevelScores(level=level, labels=count, accuracy=accuracy, macro_f1=f1))
    return found


def _on_level(values: NDArray[Any], numbers: Ints, count: int, *, multi: bool) -> NDArray[Any]:
    """Return class numbers, or indicators (..., C) for several labels, on a level that has `count` labels."""
    if not multi:
        return np.asarray(numbers[values])
    return np.stack([values[..., numbers == each].any(-1) for each in range(count)], -1)
