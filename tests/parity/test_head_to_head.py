"""Head-to-head attention, Eq. 1–6: the fused torch layers against the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.attention.dot_product import DotProductAttention, unfused_attention
from epigram.nn.layers.attention.head_to_head import HeadToHead, token_mean
from epigram.nn.layers.types import DataSpec
from tests.parity.reference import head_to_head as paper
from tests.parity.reference.attention import scores
from tests.parity.reference.batches import assert_rows, padded, pair, scattered, texts
from tests.parity.reference.common import Array, linear, softmax

WIDTH = 8
LENGTHS = [5, 1, 11, 8]
GATES = ["paper", "residual"]
SITES = ["scores", "context"]


def gate_of(heads: int, gate: str, site: str = "scores") -> HeadToHead:
    return scattered(HeadToHead(heads=heads, gate=gate, site=site, dropout=0.5), seed=3)


def settings(part: HeadToHead) -> dict[str, Any]:
    """Return the gate's parameters in the form that the reference takes."""
    strength = None if part.strength is None else part.strength.item()
    return {"first": pair(part.first), "second": pair(part.second), "strength": strength}


def split(x: Array, heads: int) -> Array:
    """Return (L, D) as (H, L, d)."""
    return np.stack(np.split(x, heads, axis=1))


def layer_of(heads: int, gate: str, site: str) -> DotProductAttention:
    part = HeadToHead(heads=heads, gate=gate, site=site, dropout=0.5)
    return scattered(DotProductAttention(width=WIDTH, heads=heads, dropout=0.5, head_to_head=part))


@pytest.mark.parametrize("heads", [2, 4])
def test_eq1_squeeze_needs_no_matrix(heads: int) -> None:
    queries, keys = texts(LENGTHS, WIDTH, 1), texts(LENGTHS, WIDTH, 2)
    wanted = [
        paper.squeezed([scores(a, b) for a, b in zip(split(q, heads), split(k, heads), strict=True)])
        for q, k in zip(queries, keys, strict=True)
    ]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        (q, valid), (k, _) = padded(queries, dtype), padded(keys, dtype)
        q, k = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, k))  # (B, H, L, d)
        m = (token_mean(q, valid) * token_mean(k, valid)).sum(-1) / (WIDTH // heads) ** 0.5
        np.testing.assert_allclose(m.numpy(), wanted, atol=tolerance)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("heads", [2, 4, 12])
def test_eq2_to_5_factors(heads: int, gate: str) -> None:
    part = gate_of(heads, gate)
    m = np.random.default_rng(0).normal(size=(6, heads))
    wanted = [paper.factors(row, **settings(part)) for row in m]
    np.testing.assert_allclose(part(torch.from_numpy(m)).detach().numpy(), wanted, atol=1e-12)


def test_eq4_rows_sum_to_one() -> None:
    part = settings(gate_of(4, "paper"))
    z = paper.relation(np.random.default_rng(0).normal(size=4), part["first"], part["second"])
    np.testing.assert_allclose(z.sum(axis=1), 1.0)
    assert np.abs(z - z[0]).max() > 1e-3  # the heads differ


@pytest.mark.parametrize("lengths", [LENGTHS, [6, 6]], ids=["padded", "even"])
@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("gate", GATES)
def test_eq1_to_6_attention(gate: str, site: str, heads: int, lengths: list[int]) -> None:
    layer = layer_of(heads, gate, site)
    assert layer.head_to_head is not None
    rows, part = texts(lengths, WIDTH), settings(layer.head_to_head)
    wanted = []
    for x in rows:
        q, k, v = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
        wanted.append(linear(paper.attention(q, k, v, heads, **part, site=site), *pair(layer.out)))
    assert_rows(layer(*padded(rows)), wanted, 1e-9)
    assert_rows(layer.float()(*padded(rows, torch.float32)), wanted, 1e-5)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("gate", GATES)
def test_eq6_attention_weights_of_padded_texts(gate: str, site: str) -> None:
    """With `site` `context`, the factors do not change the attention weights."""
    layer, rows = layer_of(2, gate, site), texts(LENGTHS, WIDTH)
    assert layer.head_to_head is not None
    got = layer.attention_weights(*padded(rows)).detach().numpy()
    for found, x in zip(got, rows, strict=True):
        q, k, _ = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
        raw = np.stack([scores(*each) for each in zip(split(q, 2), split(k, 2), strict=True)])
        if site == "scores":
            raw = paper.factors(paper.squeezed(list(raw)), **settings(layer.head_to_head))[:, None, None] * raw
        np.testing.assert_allclose(found[:, : len(x), : len(x)], softmax(raw), atol=1e-9)
        assert not found[:, : len(x), len(x) :].any(), "padding has no weight"


@pytest.mark.parametrize("site", SITES)
def test_eq6_residual_starts_as_plain_attention_and_paper_does_not(site: str) -> None:
    x, valid = padded(texts(LENGTHS, WIDTH))
    for gate, same in (("residual", True), ("paper", False)):
        layer = layer_of(2, gate, site)
        plain = DotProductAttention(width=WIDTH, heads=2, dropout=0.0).double()
        plain.load_state_dict(layer.state_dict(), strict=False)
        if gate == "residual":
            torch.nn.init.zeros_(layer.head_to_head.strength)
        assert torch.equal(layer(x, valid)[valid], plain(x, valid)[valid]) is same


@pytest.mark.parametrize("site", SITES)
def test_eq5_dropout_takes_a_heads_weight_not_a_residual_head(site: str) -> None:
    m = torch.full((2000, 4), 0.7)
    dropped = HeadToHead(heads=4, gate="paper", site=site, dropout=0.25)(m)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(dropped[dropped > 0], torch.full_like(dropped[dropped > 0], 0.7 / 0.75))
    residual = HeadToHead(heads=4, gate="residual", site=site, dropout=0.25)
    torch.nn.init.constant_(residual.strength, 0.5)
    assert (residual(m) >= 1).all()


def test_eq1_after_the_softmax_is_a_constant_that_nothing_learns_from() -> None:
    length, heads = 7, 4
    raw = np.random.default_rng(0).normal(size=(heads, length, length)) * 3
    m = paper.squeezed([softmax(u) for u in raw])
    np.testing.assert_allclose(m, 1 / length, atol=1e-12)  # every row sums to 1
    part = gate_of(heads, "paper")
    weights = part(torch.from_numpy(m)[None])
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / length))
    weights.square().sum().backward()
    for weight in part.parameters():
        torch.testing.assert_close(weight.grad, torch.zeros_like(weight))


def test_eq6_spelled_out_is_the_fused_attention() -> None:
    (q, valid), (k, _), (v, _) = (padded(texts(LENGTHS, WIDTH, seed)) for seed in (1, 2, 3))
    q, k, v = (t.unflatten(2, (2, -1)).transpose(1, 2) for t in (q, k, v))
    mask = valid[:, None, None, :]
    y, weights = unfused_attention(q, k, v, mask, scale=0.3, dropout=0.0)
    torch.testing.assert_close(y, torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=0.3))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert (weights.masked_select(~mask.expand_as(weights)) == 0).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attention": "correlation", "heads": 1}, "encoder.attention is 'correlation', which has one head"),
        ({"heads": 1}, "but the attention has one head"),
    ],
)
def test_attention_of_one_head_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TransformerConfig(head_to_head="paper", **changes).check(DataSpec(vocabulary=9, classes=2, max_length=8))
