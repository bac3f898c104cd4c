"""LEAM and EXAM, with the region embedding, against their NumPy references."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epigram.nn.encoders.region import RegionConfig
from epigram.nn.heads.interaction import InteractionConfig, InteractionHead
from epigram.nn.heads.label_attention import LabelAttentionConfig, LabelAttentionHead
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from tests.parity.reference import label_embedding as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array, cross_entropy, softmax
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


@pytest.mark.parametrize("radius", [0, 2, 6])
def test_leam_eq4_to_7_attention(radius: int) -> None:
    head, rows = leam(radius), texts(LENGTHS, WIDTH)
    beta = head.attention(*padded(rows))
    assert_rows(beta, [beta_reading(head, row) for row in rows], 1e-6)  # the softmax is in float32
    assert not beta[~padded(rows)[1]].any()


def test_leam_eq8_to_10_answer_and_loss() -> None:
    head, rows = leam(), texts(LENGTHS, WIDTH)
    wanted = [classified(head, paper.attended(row, beta_reading(head, row))) for row in rows]
    got = head(encoded(rows), torch.tensor(GOLD))
    np.testing.assert_allclose(got.logits.detach().numpy(), np.stack(wanted), atol=1e-5)
    anchors = [classified(head, label) for label in array(head.labels)]
    assert float(got.loss.detach()) == pytest.approx(paper.leam_loss(wanted, GOLD, anchors, 0.7), abs=1e-5)


def exam(length: int = 12) -> InteractionHead:
    context = DataSpec(vocabulary=13, classes=CLASSES, max_length=length)
    return scattered(InteractionConfig(hidden=7).build(context, encoder()))


def exam_reading(head: InteractionHead, words: Array) -> Array:
    return paper.aggregated(paper.interaction(words, array(head.classes.weight)), pair(head.first), pair(head.second))


@pytest.mark.parametrize("length", [12, 30])
def test_exam_eq6_7_answer_and_loss(length: int) -> None:
    head, rows = exam(length), texts(LENGTHS, WIDTH)
    wanted = [exam_reading(head, row) for row in rows]
    got = head(encoded(rows), torch.tensor(GOLD))
    np.testing.assert_allclose(got.logits.detach().numpy(), np.stack(wanted), atol=1e-9)
    losses = [cross_entropy(softmax(o), y) for o, y in zip(wanted, GOLD, strict=True)]
    assert float(got.loss.detach()) == pytest.approx(np.mean(losses), abs=1e-5)


def test_exam_aggregation_is_twice_the_length_by_default() -> None:
    head = InteractionConfig().build(CONTEXT, encoder())
    assert tuple(head.first.weight.shape) == (24, 12)


@pytest.mark.parametrize("radius", [0, 1, 3])
def test_region_embedding(radius: int) -> None:
    part = scattered(RegionConfig(width=WIDTH, radius=radius).build(CONTEXT))
    vectors = array(part.embedding.token.weight)
    units = np.stack([array(unit.weight) for unit in part.units])
    out = part(padded_ids(IDS, pad_id=4))
    assert_rows(out.last, [paper.region(ids, vectors, units) for ids in IDS], 1e-9)
    assert not out.last[~out.tokens.valid].any()
