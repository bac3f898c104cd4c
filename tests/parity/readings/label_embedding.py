"""Readings of a model's weights for test_label_embedding.py and other tests."""

from __future__ import annotations

import torch

from epigram.nn.heads.interaction import InteractionConfig, InteractionHead
from epigram.nn.heads.label_attention import LabelAttentionConfig, LabelAttentionHead
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from tests.parity.reference import label_embedding as paper
from tests.parity.reference.batches import padded, pair, scattered
from tests.parity.reference.common import Array
from tests.parity.reference.weights import array

WIDTH, CLASSES = 8, 4
LENGTHS = [5, 1, 9, 12, 2]
GOLD = [0, 3, 1, 1, 2]
CONTEXT = DataSpec(vocabulary=13, classes=CLASSES, max_length=12)
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 1]]


def encoder() -> Encoder:
    part = Encoder()
    part.width = WIDTH
    return part


def encoded(rows: list[Array]) -> Encoded:
    """Return the states of texts, with noise in the padding."""
    x, valid = padded(rows)
    return Encoded((x,), Tokens(torch.zeros(valid.shape, dtype=torch.int64), valid))


def leam(radius: int = 2) -> LabelAttentionHead:
    return scattered(LabelAttentionConfig(radius=radius, hidden=6, anchor=0.7).build(CONTEXT, encoder()))


def beta_reading(head: LabelAttentionHead, words: Array) -> Array:
    g = paper.compatibility(words, array(head.labels))
    return paper.attention(g, array(head.window), array(head.bias))


def classified(head: LabelAttentionHead, z: Array) -> Array:
    return paper.perceptron(z, pair(head.classify[1]), pair(head.classify[-1]))


def exam(length: int = 12) -> InteractionHead:
    context = DataSpec(vocabulary=13, classes=CLASSES, max_length=length)
    return scattered(InteractionConfig(hidden=7).build(context, encoder()))


def exam_reading(head: InteractionHead, words: Array) -> Array:
    return paper.aggregated(paper.interaction(words, array(head.classes.weight)), pair(head.first), pair(head.second))
