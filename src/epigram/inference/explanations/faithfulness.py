"""Faithfulness of explanations: how much the probability of the label falls without the words with the highest scores.

Samek et al., Evaluating the Visualization of What a Deep Neural Network Has Learned, 2017 (deletion curve); DeYoung et
al., ERASER, 2020 (comprehensiveness). Shapes: W words of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Integers
from epigram.inference.explanations.occlusion import probabilities_of, without
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.inference.predictors.explanation import Explanation, Faithfulness

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # shares of the words that are deleted
RANDOM = 10  # random orders of the words, for comparison
PREDICTIONS = (1 + RANDOM) * len(SHARES)  # shortened texts that are predicted for each text


def measure(predictor: BasePredictor, explanations: Sequence[Explanation], *, seed: int = 0) -> list[Faithfulness]:
    """Return the faithfulness of each explanation of a text with words.

    All shortened texts are predicted together. The random orders depend on `seed` only.
    """
    if not explanations:
        return []
    generator = np.random.default_rng(seed)
    orders = [_orders(explanation, generator) for explanation in explanations]
    texts = (text for each, rows in zip(explanations, orders, strict=True) for text in _shortened(each, rows))
    places = [predictor.labels.index(explanation.label) for explanation in explanations]
    labels = np.repeat(places, PREDICTIONS)
    found = probabilities_of(predictor, texts, labels).reshape(len(explanations), 1 + RANDOM, len(SHARES))
    return [
        Faithfulness(
            shares=list(SHARES),
            probabilities=curves[0].tolist(),
            random_probabilities=curves[1:].mean(0).tolist(),
            comprehensiveness=explanation.probability - float(curves[0].mean()),
            random_comprehensiveness=explanation.probability - float(curves[1:].mean()),
        )
        for explanation, curves in zip(explanations, found, strict=True)
    ]


def with_faithfulness(predictor: BasePredictor, explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return the explanations with their faithfulness."""
    found = measure(predictor, explanations)
    return [replace(each, faithfulness=measured) for each, measured in zip(explanations, found, strict=True)]


def _orders(explanation: Explanation, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the order in which the words are deleted, highest score first, and random orders, (1 + RANDOM, W)."""
    scores = np.array([word.score for word in explanation.words])
    random = generator.permuted(np.tile(np.arange(len(scores)), (RANDOM, 1)), axis=1)
    return np.concatenate([np.argsort(-scores, kind="stable")[None], random])


def _shortened(explanation: Explanation, orders: NDArray[np.int64]) -> Iterator[str]:
    """Yield the text without the first words of each order: at least one, up to each of the SHARES."""
    words: Integers = np.array([(word.start, word.end) for word in explanation.words])
    for order in orders:
        for share in SHARES:
            yield without(explanation.text, words, order[: max(1, round(share * len(order)))])
