"""Contributions of n-grams to the score of a linear model, exactly, shared by the tokens of each n-gram.

Shapes: L tokens of one text, K occurrences of n-grams, C classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.arrays import Integers, ranges
from epigram.inference.explanations.words import Scores
from epigram.models.linear_svm import LinearSvm
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.nn.layers.ngrams import Counted, character_keys, ngram_keys
from epigram.nn.layers.types import Tokens


class Occurrences(NamedTuple):
    """The n-grams of a text, each with its key, its first token and its number of tokens, (K,) each."""

    keys: Tensor
    first: Integers
    size: Integers


@torch.inference_mode()
def svm_scores(model: LinearSvm, tokens: Tokens, label: int) -> tuple[Scores, float]:
    """Return the contribution of each token to the decision score of `label` (L,), and the intercept.

    They sum to the score. An n-gram that occurs several times gives each occurrence the same part of its contribution.
    """
    _, features, values = model.features(tokens)
    found = find_occurrences(tokens, model.counted)
    known = torch.searchsorted(model.keys, found.keys).clamp(max=max(len(model.keys) - 1, 0))
    is_known = (model.keys[known] == found.keys).numpy() if len(model.keys) else np.zeros(len(found.keys), np.bool_)
    place = np.searchsorted(features.numpy(), known.numpy()[is_known])
    contribution = (model.weight[features, label].double() * values.double() * model.scale.double()).numpy()
    shares = contribution / np.maximum(np.bincount(place, minlength=len(contribution)), 1)
    scores = spread(shares[place], found.first[is_known], found.size[is_known], tokens.ids.shape[1])
    return scores, float(model.bias[label].double() * model.scale.double())


@torch.inference_mode()
def hashed_scores(head: LinearNgramsHead, tokens: Tokens) -> Scores:
    """Return the contribution of the n-grams of each token to the logits, (L, C)."""
    bucket, value = (part[0] for part in head.features(tokens))
    contribution = (head.ngrams.weight[bucket].double() * value.double().unsqueeze(1)).numpy()
    place, order = np.divmod(np.arange(len(contribution)), len(head.orders))
    complete = (bucket < head.buckets).numpy()
    first, size = (head.before + place)[complete], np.array(head.orders)[order][complete]
    classes = (spread(each, first, size, tokens.ids.shape[1]) for each in contribution[complete].T)
    return np.stack(list(classes), axis=1)


def find_occurrences(tokens: Tokens, counted: Counted) -> Occurrences:
    """Return the n-grams of one text without padding; an n-gram of characters has the token that contains it."""
    keys, _ = ngram_keys(tokens, counted.vocabulary, counted.orders)
    lowest, highest = counted.orders
    orders = np.arange(lowest, highest + 1)
    starts = np.maximum(tokens.ids.shape[1] - orders + 1, 0)
    found = Occurrences(keys, ranges(np.zeros_like(starts), starts).values, np.repeat(orders, starts))
    if counted.spelled is None:
        return found
    assert tokens.characters is not None
    alone = Tokens(tokens.ids.T, tokens.valid.T, characters=tokens.characters.transpose(0, 1))  # a row per token
    spelled, owners = character_keys(alone, counted.alphabet, counted.spelled)
    one = np.ones(len(spelled), np.int64)
    first, size = np.concatenate([owners.numpy(), found.first]), np.concatenate([one, found.size])
    return Occurrences(torch.cat([spelled, keys]), first, size)


def spread(values: NDArray[np.float64], first: Integers, size: Integers, length: int) -> Scores:
    """Return the `values` (K,) as scores of `length` tokens: each in equal parts on `size` tokens from `first` on."""
    tokens = ranges(first, size)
    return np.bincount(tokens.values, tokens.spread(values / size), length).astype(np.float64)
