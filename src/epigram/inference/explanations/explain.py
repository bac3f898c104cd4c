"""Explain the label of texts: the words that speak for it and against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from epigram.core.arrays import Integers
from epigram.core.errors import ParameterError
from epigram.inference.explanations.faithfulness import with_faithfulness
from epigram.inference.explanations.methods import choose_method, score_words
from epigram.inference.explanations.token_scores import WordScores
from epigram.inference.explanations.words import find_words
from epigram.inference.predictors.base_predictor import BasePredictor, list_texts
from epigram.inference.predictors.explanation import Explanation, Method, WordScore
from epigram.text.tokens.characters import strip


def explain(
    predictor: BasePredictor,
    texts: Iterable[str],
    *,
    method: str = "auto",
    label: str | None = None,
    faithfulness: bool = False,
) -> list[Explanation]:
    """Return how much the words of each text speak for `label`, by default the most probable one.

    `method` is weights, attention, gradients or occlusion; auto chooses by the kind of the model. With `faithfulness`,
    each explanation is tested by predictions for the text without some of its words. If the model was saved with its
    training texts, each explanation has the nearest ones. Raises ParameterError for a
    `label` that the model does not have, and for a method that does not fit the model.
    """
    listed = list_texts(texts, predictor.join)
    if label is not None and label not in predictor.labels:
        raise ParameterError(f"{predictor.folder} has no label {label!r}; its labels are {', '.join(predictor.labels)}")
    chosen = choose_method(predictor, method)
    filled = [text for text in listed if strip(text)]
    explained = _explain(predictor, filled, chosen, label) if filled else []
    if faithfulness:
        explained = with_faithfulness(predictor, explained)
    if filled and predictor.neighbors is not None:
        similar = predictor.neighbors.find(filled)
        explained = [replace(each, similar=nearest) for each, nearest in zip(explained, similar, strict=True)]
    found = iter(explained)
    nothing = Explanation(text="", label=label or "", probability=0.0, method=chosen, words=[])
    return [next(found) if strip(text) else replace(nothing, text=text) for text in listed]


def _explain(predictor: BasePredictor, texts: Sequence[str], method: Method, label: str | None) -> list[Explanation]:
    """Return the explanations of texts that are not empty."""
    probabilities = predictor.probabilities(texts)
    labels = predictor.choose(probabilities) if label is None else np.full(len(texts), predictor.labels.index(label))
    words = [find_words(text, predictor.language) for text in texts]
    scores = score_words(predictor, texts, words, labels.tolist(), method)
    return [
        Explanation(
            text=text,
            label=predictor.labels[place],
            probability=float(row[place]),
            method=method,
            words=_word_scores(text, spans, found),
            base=found.base,
        )
        for text, spans, place, row, found in zip(texts, words, labels, probabilities, scores, strict=True)
    ]


def _word_scores(text: str, words: Integers, found: WordScores) -> list[WordScore]:
    return [
        WordScore(text=text[start:end], start=start, end=end, score=score)
        for (start, end), score in zip(words.tolist(), found.words.tolist(), strict=True)
    ]
