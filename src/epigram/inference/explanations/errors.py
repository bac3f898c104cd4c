"""Words that speak for the wrong labels of the most confident errors, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from epigram.evaluation.records.results import Mistake
from epigram.inference.explanations.explain import explain
from epigram.inference.explanations.methods import methods_of
from epigram.inference.predictors.predictor import Predictor

BUDGET = 2e10  # FLOPs of all shortened texts together, about a second; a measured time would change from run to run
LEAST = 0.1  # weight below which a word is not marked


def explain_mistakes(
    folder: Path, mistakes: Sequence[Mistake], texts: Mapping[int, str], flops: float
) -> list[Mistake]:
    """Return the `mistakes` with their words, as far as the BUDGET allows; a prediction of a text needs `flops`.

    `texts` has the text of each row. The model in `folder` explains them by its weights, or by occlusion.
    """
    if not mistakes:
        return []
    predictor = Predictor(folder)
    method = "weights" if "weights" in methods_of(predictor) else "occlusion"
    explained, left = [], BUDGET
    for mistake in mistakes:
        text, label = texts[mistake.row], _wrong_label(mistake)
        cost = flops * len(text.split() if predictor.language == "en" else text) if method == "occlusion" else 0.0
        left -= cost
        words = _words(predictor, text, label, method, mistake.text) if left >= 0 and label else []
        explained.append(replace(mistake, words=words))
    return explained


def _wrong_label(mistake: Mistake) -> str | None:
    """Return the first label that is wrong: predicted and not gold, or gold and not predicted."""
    wrong = [name for name in mistake.predicted if name not in mistake.gold]
    return next(iter([*wrong, *(name for name in mistake.gold if name not in mistake.predicted)]), None)


def _words(predictor: Predictor, text: str, label: str, method: str, shown: str) -> list[tuple[int, int, float]]:
    """Return the words of `text` with a visible weight that `shown`, its beginning, has too."""
    (found,) = explain(predictor, [text], method=method, label=label)
    weights = ((start, end, round(weight, 2)) for start, end, weight in found.weights())
    return [
        (start, end, weight)
        for start, end, weight in weights
        if abs(weight) >= LEAST and shown[start:end] == text[start:end]
    ]
