"""Words that speak for the wrong labels of the most confident errors, and their faithfulness, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from epigram.evaluation.records.results import Mistake, WordFaithfulness
from epigram.inference.explanations.explain import explain
from epigram.inference.explanations.faithfulness import PREDICTIONS, measure
from epigram.inference.explanations.methods import methods_of
from epigram.inference.predictors.explanation import Explanation
from epigram.inference.predictors.predictor import Predictor

BUDGET = 2e10  # FLOPs of all shortened texts together, about a second; a measured time would change from run to run
LEAST = 0.1  # weight below which a word is not marked


def explain_mistakes(
    predictor: Predictor, mistakes: Sequence[Mistake], texts: Mapping[int, str], flops: float
) -> tuple[list[Mistake], WordFaithfulness | None]:
    """Return the `mistakes` with their words, and how faithful the words are; a prediction of a text needs `flops`.

    `texts` has the text of each row. The model explains them by its weights, or by occlusion. The BUDGET
    limits how many are explained, and again how many of these are measured; None if it allows no measurement.
    """
    method = "weights" if "weights" in methods_of(predictor) else "occlusion"
    found, left = dict[int, Explanation](), BUDGET
    for mistake in mistakes:
        text, label = texts[mistake.row], _wrong_label(mistake)
        left -= flops * len(text.split() if predictor.language == "en" else text) if method == "occlusion" else 0.0
        if left >= 0 and label:
            (found[mistake.row],) = explain(predictor, [text], method=method, label=label)
    explained = [
        replace(each, words=_words(found[each.row], each.text)) if each.row in found else each for each in mistakes
    ]
    return explained, _faithfulness(predictor, list(found.values()), method, flops)


def _faithfulness(
    predictor: Predictor, found: Sequence[Explanation], method: str, flops: float
) -> WordFaithfulness | None:
    """Return the mean faithfulness of the first explanations with words, as many as the BUDGET allows."""
    affordable = int(BUDGET / max(1.0, flops * PREDICTIONS))
    measured = measure(predictor, [each for each in found if each.words][:affordable])
    if not measured:
        return None
    return WordFaithfulness(
        method=method,
        rows=len(measured),
        comprehensiveness=fmean(each.comprehensiveness for each in measured),
        random_comprehensiveness=fmean(each.random_comprehensiveness for each in measured),
    )


def _wrong_label(mistake: Mistake) -> str | None:
    """Return the first label that is wrong: predicted and not gold, or gold and not predicted."""
    wrong = [name for name in mistake.predicted if name not in mistake.gold]
    return next(iter([*wrong, *(name for name in mistake.gold if name not in mistake.predicted)]), None)


def _words(found: Explanation, shown: str) -> list[tuple[int, int, float]]:
    """Return the words with a visible weight that `shown`, the beginning of the text, has too."""
    weights = ((start, end, round(weight, 2)) for start, end, weight in found.weights())
    return [
        (start, end, weight)
        for start, end, weight in weights
        if abs(weight) >= LEAST and shown[start:end] == found.text[start:end]
    ]
