"""Dot-product attention and sinusoidal positions against the NumPy reference of Vaswani et al. (2017)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead
from epigram.nn.layers.embedding import sinusoids as torch_sinusoids
from tests.parity.reference import head_to_head as hth
from tests.parity.reference.attention import dot_product, scores, sinusoids, weighted
from tests.parity.reference.batches import assert_rows, padded, padded_weights, pair, scattered, texts
from tests.parity.reference.common import Array, linear

WIDTH = 8
LENGTHS = [5, 1, 11, 8]


def reading(layer: DotProductAttention, x: Array, weight: Array) -> Array:
    q, k, v = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
    return linear(dot_product(q, k, v, layer.heads, weight, layer.placement), *pair(layer.out))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("lengths", [LENGTHS, [6, 6]], ids=["padded", "even"])
def test_vaswani_eq1_dot_product(heads: int, lengths: list[int]) -> None:
    layer = scattered(DotProductAttention(width=WIDTH, heads=heads, dropout=0.5))
    rows = texts(lengths, WIDTH)
    wanted = [reading(layer, x, np.ones(len(x))) for x in rows]
    assert_rows(layer(*padded(rows)), wanted, 1e-9)
    assert_rows(layer.float()(*padded(rows, torch.float32)), wanted, 1e-5)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("heads", [1, 2])
def test_eq5_weighted_dot_product(placement: str, heads: int) -> None:
    layer = scattered(DotProductAttention(width=WIDTH, heads=heads, dropout=0.5, placement=placement))
    rows = texts(LENGTHS, WIDTH)
    weights = [np.random.default_rng(len(x)).choice([0.5, 1.0], size=len(x)) for x in rows]
    wanted = [reading(layer, x, w) for x, w in zip(rows, weights, strict=True)]
    assert_rows(layer(*padded(rows), padded_weights(weights)), wanted, 1e-9)


@pytest.mark.parametrize(("placement", "same"), [("log", True), ("after", False), ("inside", False)])
def test_eq5_constant_weight_changes_all_but_log(placement: str, same: bool) -> None:
    layer = scattered(DotProductAttention(width=WIDTH, heads=2, dropout=0.5, placement=placement))
    x, valid = padded(texts(LENGTHS, WIDTH))
    plain, weighed = layer(x, valid)[valid], layer(x, valid, torch.full(valid.shape, 0.5))[valid]
    assert bool((plain - weighed).abs().max() < 1e-9) is same


@pytest.mark.parametrize("site", ["scores", "context"])
@pytest.mark.parametrize("placement", ["after", "inside", "log"])
def test_eq5_weighted_attention_of_heads_that_weigh_each_other(placement: str, site: str) -> None:
    part = HeadToHead(heads=2, gate="residual", site=site, dropout=0.5)
    layer = scattered(DotProductAttention(width=WIDTH, heads=2, dropout=0.5, placement=placement, head_to_head=part))
    rows = texts(LENGTHS, WIDTH)
    weights = [np.random.default_rng(len(x)).choice([0.5, 1.0], size=len(x)) for x in rows]
    gate = (pair(part.first), pair(part.second), part.strength.item())
    wanted = []
    for x, w in zip(rows, weights, strict=True):
        q, k, v = (np.split(each, 2, axis=1) for each in np.split(linear(x, *pair(layer.qkv)), 3, axis=1))
        raw = [scores(*each) for each in zip(q, k, strict=True)]
        if site == "scores":  # HTH Eq. 1–6, then Eq. 5: the squeeze does not use w
            raw = [f * u for f, u in zip(hth.factors(hth.squeezed(raw), *gate), raw, strict=True)]
        context = [weighted(u, w, placement) @ each for u, each in zip(raw, v, strict=True)]
        if site == "context":
            context = [f * c for f, c in zip(hth.factors(hth.squeezed(context), *gate), context, strict=True)]
        wanted.append(linear(np.concatenate(context, axis=1), *pair(layer.out)))
    assert_rows(layer(*padded(rows), padded_weights(weights)), wanted, 1e-9)


def test_vaswani_positions() -> None:
    table = torch_sinusoids(512, 16).numpy()
    np.testing.assert_allclose(table[:32], sinusoids(32, 16), atol=1e-5)
    np.testing.assert_allclose(table, sinusoids(512, 16), atol=2e-4)  # float32 angles of up to 511 radians
