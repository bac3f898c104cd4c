"""The methods of explanation, and which of them fits a model."""

from __future__ import annotations

from collections.abc import Sequence

from epigram.core.arrays import Integers
from epigram.core.errors import ParameterError
from epigram.inference.explanations.attention import attend, has_attention
from epigram.inference.explanations.gradients import has_gradients, integrate
from epigram.inference.explanations.ngram_weights import svm_scores
from epigram.inference.explanations.occlusion import occlude
from epigram.inference.explanations.token_scores import ReadText, WordScores
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.inference.predictors.explanation import Method
from epigram.inference.predictors.predictor import Predictor
from epigram.models.linear_svm import LinearSvm

AUTO = "auto"


def choose_method(predictor: BasePredictor, name: str) -> Method:
    """Return the method `name`, or for `auto` the best one for the model.

    Raises ParameterError for an unknown method and for one that does not fit the model.
    """
    fitting = methods_of(predictor)
    if name == AUTO:
        return fitting[0]
    if name not in fitting:
        raise ParameterError(f"the method {name!r} does not fit {predictor.folder}; use {' or '.join(fitting)}")
    return next(method for method in fitting if method == name)


def methods_of(predictor: BasePredictor) -> list[Method]:
    """Return the methods that fit the model, the best one first."""
    if not isinstance(predictor, Predictor):
        return ["occlusion"]
    if isinstance(predictor.saved.model, LinearSvm):
        return ["weights", "occlusion"]
    model = predictor.saved.model
    attention: list[Method] = ["attention"] if has_attention(model) else []
    gradients: list[Method] = ["gradients"] if has_gradients(model) else []
    return [*gradients, "occlusion", *attention]


def score_words(
    predictor: BasePredictor, texts: Sequence[str], words: Sequence[Integers], labels: Sequence[int], method: Method
) -> list[WordScores]:
    """Return the scores of the `words` (W, 2) of each text for its label."""
    if method == "occlusion":
        return occlude(predictor, texts, words, labels)
    assert isinstance(predictor, Predictor)
    score = {"weights": _by_weights, "gradients": integrate, "attention": attend}[method]
    exact = predictor.exact
    return [score(exact, *each) for each in zip(texts, words, labels, strict=True)]


def _by_weights(predictor: Predictor, text: str, words: Integers, label: int) -> WordScores:
    read = ReadText.of(predictor, text)
    scores, base = svm_scores(predictor.saved.model, read.tokens(), label)
    return read.by_word(scores, words, base)
