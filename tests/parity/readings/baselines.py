"""Readings of a model's weights for test_baselines.py and other tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from epigram.nn.layers.convolution import Convolution
from epigram.nn.layers.ngrams import ngram_buckets
from epigram.nn.layers.types import DataSpec
from tests.parity.reference.attention import dot_product
from tests.parity.reference.batches import padded, padded_ids, pair
from tests.parity.reference.common import Array, gelu, layer_norm, linear
from tests.parity.reference.lstm import Lstm

WIDTH, VOCABULARY = 8, 13
LENGTHS = [5, 1, 11, 8, 2]
IDS = [[3, 4, 3, 4, 5], [7], [6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6], [3, 4, 9, 8, 3, 4, 1, 2], [12, 5]]
CONTEXT = DataSpec(vocabulary=VOCABULARY, classes=2, max_length=16)


def array(parameter: torch.Tensor) -> Array:
    return parameter.detach().double().numpy()


def channels(rows: list[Array]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return texts as a batch (B, C, L) with noise in the padding."""
    x, valid = padded(rows)
    return x.transpose(1, 2), valid


def bucket(gram: list[int], buckets: int) -> int:
    """Return the bucket of one n-gram, as the model computes it."""
    return int(ngram_buckets(padded_ids([gram]), VOCABULARY, [len(gram)], buckets)[0, 0, 0])


def filters(convolution: Convolution) -> tuple[Array, Array]:
    """Return the weight (out, D, 3) and the bias of a convolution."""
    weight, bias = pair(convolution.product)
    return weight.reshape(len(weight), convolution.size, -1).transpose(0, 2, 1), bias


def direction(lstm: nn.LSTM) -> Lstm:
    inputs, states, first, second = map(array, lstm.all_weights[0])
    return Lstm(inputs, states, first + second)


def step_reading(block: Any, x: Array) -> Array:
    """Shared block (Dehghani et al. 2019, Eq. 4, 5): attention and transition, each with residual and norm."""
    attention = block.attention
    q, k, v = np.split(linear(x, *pair(attention.qkv)), 3, axis=1)
    attended = linear(dot_product(q, k, v, attention.heads, np.ones(len(x))), *pair(attention.out))
    x = layer_norm(x + attended, *pair(block.norm_attention))
    hidden = gelu(linear(x, *pair(block.hidden[0])))
    return layer_norm(x + linear(hidden, *pair(block.hidden[2])), *pair(block.norm_hidden))


CHANCES = [[0.2, 0.5, 0.9, 0.1], [0.995, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1], [0.6, 0.39, 0.5, 0.5]]
