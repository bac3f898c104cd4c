"""Transformer-F, Eq. 1–7: the torch layers against the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.transformer import Block, TransformerConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.attention.correlation import CorrelationAttention, row_norms, standardize
from epigram.nn.layers.hook_fusion import FusionConfig, fuse, hook_weights
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.attention import dot_product, sinusoids
from tests.parity.reference.batches import (
    assert_rows,
    padded,
    padded_ids,
    padded_weights,
    pair,
    scattered,
    texts,
)
from tests.parity.reference.common import Array, cross_entropy, gelu, linear, relu, softmax

WIDTH = 8
SHORT = [5, 1, 8, 3]  # the longest is not above WIDTH: row norms from the L×L matrix
LONG = [11, 1, 19, 4]  # above WIDTH: row norms from the D×D matrix
HOOKS_OF_SIX = [1.100, 0.750, 0.722, 0.775, 0.860, 0.961]


def weights_for(rows: list[Array]) -> list[Array]:
    """Return a weight of 0.5 or 1 for each token, like those of function and notional words."""
    return [np.random.default_rng(len(x)).choice([0.5, 1.0], size=len(x)) for x in rows]


def correlation_layer(**settings: Any) -> CorrelationAttention:
    return scattered(CorrelationAttention(width=WIDTH, dropout=0.5, **settings))


def attended(layer: CorrelationAttention, x: Array, weight: Array) -> Array:
    """A · (X W_V) W_O by the reference, with the layer's weights."""
    spread = paper.attention(x, weight, layer.placement, layer.row_norm, layer.temperature.item())
    return linear(spread @ linear(x, *pair(layer.value)), *pair(layer.out))


@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=["L≤D", "L>D"])
def test_eq3_4_correlation(lengths: list[int]) -> None:
    rows = texts(lengths, WIDTH)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        x, valid = padded(rows, dtype)
        unit = standardize(x, valid)
        rho = unit @ unit.transpose(1, 2)
        for got, row in zip(rho.numpy(), rows, strict=True):
            np.testing.assert_allclose(got[: len(row), : len(row)], paper.correlation(row), atol=tolerance)


def test_eq3_4_correlation_is_pearsons() -> None:
    x = texts([7], WIDTH)[0]
    np.testing.assert_allclose(paper.correlation(x), np.corrcoef(x), atol=1e-12)


@pytest.mark.parametrize("row_norm", [True, False])
def test_eq3_zero_variance_vectors(row_norm: bool) -> None:
    rows = texts([5, 3], WIDTH)
    rows[0][2], rows[0][4] = 0.0, 1.7  # the correlation with vectors of zero variance is 0
    layer = correlation_layer(row_norm=row_norm)
    out = layer(*padded(rows))
    assert torch.isfinite(out).all()
    assert_rows(out, [attended(layer, x, np.ones(len(x))) for x in rows], 1e-9)


@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=["L≤D", "L>D"])
def test_eq2_rows_of_unit_length(lengths: list[int]) -> None:
    rows = texts(lengths, WIDTH)
    unit = standardize(*padded(rows))
    matrix = (unit / row_norms(unit)) @ unit.transpose(1, 2)
    for got, row in zip(matrix.numpy(), rows, strict=True):
        wanted = paper.regularized(paper.correlation(row))
        np.testing.assert_allclose(got[: len(row), : len(row)], wanted, atol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(got[: len(row)], axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
@pytest.mark.parametrize("lengths", [SHORT, LONG, [6, 6]], ids=["L≤D", "L>D", "even"])
def test_eq1_to_5_attention(lengths: list[int], row_norm: bool, placement: str) -> None:
    layer = correlation_layer(row_norm=row_norm, placement=placement)
    rows = texts(lengths, WIDTH)
    weights = weights_for(rows)
    wanted = [attended(layer, x, w) for x, w in zip(rows, weights, strict=True)]
    assert_rows(layer(*padded(rows), padded_weights(weights)), wanted, 1e-9)
    layer.float()
    assert_rows(layer(*padded(rows, torch.float32), padded_weights(weights)), wanted, 1e-5)


@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
def test_eq1_attention_without_weight(row_norm: bool) -> None:
    layer = correlation_layer(row_norm=row_norm)
    rows = texts(LONG, WIDTH)
    assert_rows(layer(*padded(rows)), [attended(layer, x, np.ones(len(x))) for x in rows], 1e-9)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
def test_eq1_temperature_divides_the_correlations(row_norm: bool, placement: str) -> None:
    layer = correlation_layer(row_norm=row_norm, placement=placement, temperature=4.0)
    rows = texts(LONG, WIDTH)
    weights = weights_for(rows)
    wanted = [attended(layer, x, w) for x, w in zip(rows, weights, strict=True)]
    assert layer.temperature.item() == 4.0
    assert_rows(layer(*padded(rows), padded_weights(weights)), wanted, 1e-9)


def test_eq5_weights_are_not_renormalised() -> None:
    x, w = texts([6], WIDTH)[0], np.full(6, 0.5)
    np.testing.assert_allclose(paper.attention(x, w, "after", True).sum(axis=1), 0.5, atol=1e-12)
    np.testing.assert_allclose(paper.attention(x, w, "log", True).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=["L≤D", "L>D"])
@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False])
def test_eq5_attention_weights_of_padded_texts(lengths: list[int], placement: str, row_norm: bool) -> None:
    layer, rows = correlation_layer(placement=placement, row_norm=row_norm, temperature=0.7), texts(lengths, WIDTH)
    weights = weights_for(rows)
    got = layer.attention_weights(*padded(rows), padded_weights(weights)).detach().numpy()
    for found, x, w in zip(got, rows, weights, strict=True):
        wanted = paper.attention(x, w, placement, row_norm, 0.7)
        np.testing.assert_allclose(found[0, : len(x), : len(x)], wanted, atol=1e-9)
        assert not found[0, : len(x), len(x) :].any(), "padding has no weight"


@pytest.mark.parametrize(("placement", "same"), [("log", True), ("after", False), ("inside", False)])
def test_eq5_constant_weight_changes_all_but_log(placement: str, same: bool) -> None:
    layer = correlation_layer(placement=placement)
    x, valid = padded(texts(SHORT, WIDTH))
    plain, weighed = layer(x, valid)[valid], layer(x, valid, torch.full(valid.shape, 0.5))[valid]
    assert bool((plain - weighed).abs().max() < 1e-9) is same


def test_eq6_hook_weights_of_six_layers() -> None:
    got = hook_weights(6).numpy()
    np.testing.assert_allclose(got, [paper.hook(layer, 6) for layer in range(1, 7)], atol=1e-6)
    np.testing.assert_allclose(got, HOOKS_OF_SIX, atol=5e-4)


@pytest.mark.parametrize(("a", "b"), [(0.4, 2.9), (1.0, 16.0), (0.5, 12.5), (2.0, 2.0)])
def test_eq6_hook_is_lowest_at_root_of_b_over_a(a: float, b: float) -> None:
    lowest = int(hook_weights(9, a, b).argmin()) + 1
    assert lowest == round(float(np.sqrt(b / a)))


@pytest.mark.parametrize("layers", [1, 2, 6])
def test_eq7_fusion(layers: int) -> None:
    states = [texts(SHORT, WIDTH, seed) for seed in range(layers + 1)]  # the embeddings, then the blocks
    got = fuse([padded(rows)[0] for rows in states])
    wanted = [paper.fusion(list(blocks)) for blocks in zip(*states[1:], strict=True)]
    assert_rows(got, wanted, 1e-6)  # the hook weights are float32


def test_eq6_7_settings_of_the_hook() -> None:
    """With a = 1, b = 2 and N = 2: (1·1 + 2/1) / 1 = 3 for the first layer, (1·2 + 2/2) / 1 = 3 for the second."""
    states = tuple(torch.tensor([[[value]]]) for value in (100.0, 1.0, 10.0))
    encoded = Encoded(states, Tokens(torch.ones(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)))
    assert FusionConfig(fusion="hook", hook_a=1.0, hook_b=2.0).fuse_layers(encoded).item() == 33.0
    # the paper's: 0.4 + 2.9 = 3.3 and 0.8 + 1.45 = 2.25
    assert FusionConfig(fusion="hook").fuse_layers(encoded).item() == pytest.approx(3.3 + 22.5)
    assert FusionConfig(hook_a=1.0, hook_b=2.0).fuse_layers(encoded).item() == 10.0


def block_reading(block: Block, x: Array, weight: Array) -> Array:
    layer: Any = block.attention
    if isinstance(layer, CorrelationAttention):
        mixed = attended(layer, x, weight)
    else:
        q, k, v = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
        mixed = linear(dot_product(q, k, v, layer.heads, weight, layer.placement), *pair(layer.out))
    feed: Any = block.hidden
    activation = relu if isinstance(feed[1], torch.nn.ReLU) else gelu
    norms = [pair(block.norm_attention), pair(block.norm_hidden)]
    return paper.block(x, mixed, norms, [pair(feed[0]), pair(feed[-1])], activation)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("attention", ["correlation", "dot"])
def test_eq7_block(attention: Any, activation: Any) -> None:
    sizes = {"width": WIDTH, "hidden": 12, "heads": 1}
    block = scattered(Block(TransformerConfig(**sizes, attention=attention, pos_weight="after", activation=activation)))
    assert type(block.hidden[1]).__name__.lower() == activation
    rows = texts(LONG, WIDTH)
    weights = weights_for(rows)
    wanted = [block_reading(block, x, w) for x, w in zip(rows, weights, strict=True)]
    assert_rows(block(*padded(rows), padded_weights(weights)), wanted, 1e-9)


IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 12, 6]]
LABELS = [0, 2, 1, 1]
POS = np.where(np.arange(13) % 3 == 0, 0.5, 1.0)  # part-of-speech weight of each vocabulary entry


def model(encoder: dict[str, Any], fusion: str) -> NeuralClassifier:
    context = DataSpec(vocabulary=13, classes=3, max_length=16, pos_weight=torch.from_numpy(POS).float())
    sizes: dict[str, Any] = {"width": WIDTH, "hidden": 12, "depth": 3, "heads": 1}
    config = TransformerConfig(**sizes, positions="sinusoidal", embedding_norm=False, **encoder)
    built = config.build(context)
    return scattered(NeuralClassifier(built, LinearConfig(fusion=fusion).build(context, built)))


def states_reading(encoder: Any, ids: list[int], *, weighed: bool) -> list[Array]:
    """Return the embeddings with positions (Vaswani et al., §3.4 and 3.5), then the output of every block."""
    embedding = encoder.embedding.token.weight.detach().numpy()
    weight = POS[ids] if weighed else np.ones(len(ids))
    states = [np.sqrt(WIDTH) * embedding[ids] + sinusoids(len(ids), WIDTH)]
    for block in encoder.blocks:
        states.append(block_reading(block, states[-1], weight))
    return states


@pytest.mark.parametrize(
    ("encoder", "fusion"),
    [
        ({"attention": "correlation", "pos_weight": "after"}, "hook"),
        ({"attention": "correlation", "pos_weight": "after", "row_norm": False}, "hook"),
        ({"attention": "dot", "pos_weight": "after"}, "last"),
        ({"attention": "correlation"}, "last"),
        ({"attention": "dot"}, "hook"),
        ({"attention": "dot"}, "last"),
    ],
    ids=["transformer_f", "transformer_f without row norm", "+W_POS", "+ATT_COR", "+Hook", "transformer"],
)
def test_eq1_to_7_whole_model(encoder: dict[str, Any], fusion: str) -> None:
    whole = model(encoder, fusion)
    tokens = padded_ids(IDS, pad_id=5)
    encoded: Encoded = whole.encoder(tokens)
    read = [states_reading(whole.encoder, ids, weighed="pos_weight" in encoder) for ids in IDS]
    for layer, states in enumerate(encoded.states):
        assert_rows(states, [row[layer] for row in read], 1e-5)  # float32 positions
    prediction = whole(tokens, torch.tensor(LABELS))
    pooled = [(row[-1] if fusion == "last" else paper.fusion(row[1:])).mean(axis=0) for row in read]  # Eq. 7
    logits = np.stack([linear(row, *pair(whole.head.out)) for row in pooled])
    np.testing.assert_allclose(prediction.logits.detach(), logits, atol=1e-5)
    loss = np.mean([cross_entropy(softmax(row), y) for row, y in zip(logits, LABELS, strict=True)])
    assert prediction.loss.item() == pytest.approx(loss, abs=1e-5)
