"""Occlusion: the log-odds of a label that a text loses without a word. It needs predictions only.

Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, 2014; Li et al., Understanding Neural Networks
through Representation Erasure, 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Integers
from epigram.inference.explanations.token_scores import WordScores
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.text.tokens.characters import leading_whitespace, strip

CHUNK = 4_096  # texts per call of the model: limits the memory of the shortened texts
EPSILON = 1e-6  # least distance of a probability from 0 and 1, which single precision still tells


def occlude(
    predictor: BasePredictor, texts: Sequence[str], words: Sequence[Integers], labels: Sequence[int]
) -> list[WordScores]:
    """Return for each text how much the log-odds of its label fall without each of its words (W, 2).

    A word that the model does not read, because the text is truncated, has the score 0.
    """
    read = [_count_read(predictor, text, spans) for text, spans in zip(texts, words, strict=True)]
    shortened = (
        short
        for text, spans, count in zip(texts, words, read, strict=True)
        for short in (text, *(without(text, spans, np.array([word])) for word in range(count)))
    )
    counts = np.array(read) + 1
    found = log_odds(probabilities_of(predictor, shortened, np.repeat(labels, counts)))
    scores = []
    for each, spans in zip(np.split(found, np.cumsum(counts)[:-1]), words, strict=True):
        loss = np.zeros(len(spans))
        loss[: len(each) - 1] = each[0] - each[1:]
        scores.append(WordScores(loss, None))
    return scores


def without(text: str, words: Integers, removed: NDArray[np.int64]) -> str:
    """Return `text` without the words of the numbers `removed`, and without the whitespace after each of them."""
    ends = np.append(words[1:, 0], len(text))
    kept, place = [], 0
    for word in np.sort(removed).tolist():
        kept.append(text[place : words[word, 0]])
        place = int(ends[word])
    return "".join([*kept, text[place:]])


def probabilities_of(predictor: BasePredictor, texts: Iterable[str], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of the label of each text, (N,)."""
    return np.concatenate(list(_in_chunks(predictor, texts, labels)), dtype=np.float64)


def _in_chunks(
    predictor: BasePredictor, texts: Iterable[str], labels: NDArray[np.int64]
) -> Iterator[NDArray[np.float32]]:
    place, rest = 0, iter(texts)
    while chunk := list(islice(rest, CHUNK)):
        some = labels[place : place + len(chunk)]
        yield predictor.probabilities(chunk)[np.arange(len(chunk)), some]
        place += len(chunk)


def log_odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-odds of probabilities."""
    p = np.clip(probabilities, EPSILON, 1 - EPSILON)
    return np.asarray(np.log(p) - np.log1p(-p))


def _count_read(predictor: BasePredictor, text: str, words: Integers) -> int:
    """Return how many of the `words` of `text` begin in the part that the model reads."""
    tokens = predictor.encoder.encode_with_positions([strip(text)], predictor.room)
    end = tokens.spans[:, 1].max(initial=0) + leading_whitespace(text)
    return int(np.searchsorted(words[:, 0], end))
