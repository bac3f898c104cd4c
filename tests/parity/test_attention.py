"""Dot-product attention and sinusoidal positions against the NumPy reading of Vaswani et al. (2017)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pithy.layers.attention import DotProductAttention
from pithy.layers.embedding import sinusoids as torch_sinusoids
from tests.parity.reference.attention import dot_product, sinusoids
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


def test_vaswani_positions() -> None:
    table = torch_sinusoids(512, 16).numpy()
    np.testing.assert_allclose(table[:32], sinusoids(32, 16), atol=1e-5)
    np.testing.assert_allclose(table, sinusoids(512, 16), atol=2e-4)  # float32 angles of up to 511 radians
