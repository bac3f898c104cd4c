"""DMSP, Eq. 1–4 and 8: the semantic perceptron and its encoder against the NumPy reference."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from epigram.nn.encoders.semantic_perceptron import (
    SemanticPerceptron,
    SemanticPerceptronConfig,
    SemanticPerceptronEncoder,
)
from epigram.nn.layers.types import DataSpec
from tests.parity.reference import dmsp as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array

WIDTH = 8
LENGTHS = [6, 1, 13, 2, 9]
CONTEXT = DataSpec(vocabulary=13, classes=4, max_length=16)
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 1, 6]]


def perceptron(order: str = "random") -> SemanticPerceptron:
    return scattered(SemanticPerceptron(width=WIDTH, hidden=12, dropout=0.0, order=order))


def order_of(moved: Array, x0: Array) -> list[int]:
    """Return the index in `x0` (L, D) of each token of `moved` (L, D)."""
    found = [np.flatnonzero((x0 == row).all(axis=1)) for row in moved]
    assert all(len(places) == 1 for places in found), "a token was lost or made up"
    return [int(places[0]) for places in found]


def orders(block: SemanticPerceptron, rows: list[Array], layer: int = 1, draw: int = 0) -> list[list[int]]:
    """Return the order that F_t gives each text of this batch in the layer number `layer`."""
    moved = block.transformed(*padded(rows), layer, draw).numpy()
    return [order_of(got[: len(row)], row) for got, row in zip(moved, rows, strict=True)]


@pytest.mark.parametrize("training", [True, False])
def test_eq1_permutes_valid_tokens_only(training: bool) -> None:
    block = perceptron().train(training)
    rows = texts(LENGTHS, WIDTH)
    for draw in range(5):
        for order, row in zip(orders(block, rows, draw=draw), rows, strict=True):
            assert sorted(order) == list(range(len(row)))


def test_eq1_training_draws_every_order_evenly() -> None:
    torch.manual_seed(0)
    same = texts([3], WIDTH) * 3000
    drawn = orders(perceptron().train(), [*same, *texts([5], WIDTH)])[:3000]
    counts = [drawn.count(list(order)) for order in permutations(range(3))]
    assert min(counts) > 400 and max(counts) < 600  # 500 expected for each of six, ±5 standard deviations


def test_eq1_inference_orders_differ_by_layer_and_draw_and_reach_every_order() -> None:
    block, row = perceptron(), texts([3], WIDTH)
    drawn = [tuple(orders(block, row, layer, draw)[0]) for layer in range(1, 7) for draw in range(100)]
    counts = [drawn.count(order) for order in permutations(range(3))]
    assert min(counts) > 50 and max(counts) < 150  # 100 expected of each


def test_eq1_inference_order_is_the_same_alone_and_in_any_batch_with_any_padding() -> None:
    rows, longer = texts(LENGTHS, WIDTH), texts([40, 3], WIDTH, seed=1)
    block = perceptron()
    for draw in range(3):
        alone = [orders(block, [row], 3, draw)[0] for row in rows]
        assert orders(block, rows, 3, draw) == alone
        assert orders(block, [*longer, *reversed(rows)], 3, draw)[2:] == alone[::-1]


def test_eq1_inference_order_depends_on_the_length_alone() -> None:
    first, second = texts([9], WIDTH, seed=1), texts([9], WIDTH, seed=2)
    assert orders(perceptron(), first) == orders(perceptron(), second)


def layer_reading(block: SemanticPerceptron, x: Array, moved: Array | float) -> Array:
    return paper.perceptron(moved, x, paper.mlp(x, pair(block.mlp[0]), pair(block.mlp[2])))


@pytest.mark.parametrize("training", [True, False])
def test_eq2_8_layer(training: bool) -> None:
    block = perceptron().train(training)
    rows, initial = texts(LENGTHS, WIDTH), texts(LENGTHS, WIDTH, seed=1)
    (x, valid), (x0, _) = padded(rows), padded(initial)
    torch.manual_seed(5)
    moves = orders(block, initial, layer=2)
    torch.manual_seed(5)  # the block draws the same orders
    out = block(x, x0, valid, 2)
    wanted = [
        layer_reading(block, row, paper.transformed(start, order))
        for row, start, order in zip(rows, initial, moves, strict=True)
    ]
    assert_rows(out, wanted, 1e-9)
    assert not out[~valid].any()
    if not training:
        assert_rows(block.float()(x.float(), x0.float(), valid, 2), wanted, 1e-5)


def test_eq2_8_expectation_takes_the_mean_token() -> None:
    block = perceptron("expectation")
    rows, initial = texts(LENGTHS, WIDTH), texts(LENGTHS, WIDTH, seed=1)
    (x, valid), (x0, _) = padded(rows), padded(initial)
    wanted = [layer_reading(block, row, start.mean(axis=0)) for row, start in zip(rows, initial, strict=True)]
    assert_rows(block(x, x0, valid, 1), wanted, 1e-9)


def test_eq2_8_expectation_is_the_mean_of_all_orders() -> None:
    start = texts([4], WIDTH)[0]
    every = np.mean([paper.transformed(start, order) for order in permutations(range(4))], axis=0)
    assert_rows(perceptron("expectation").transformed(*padded([start]), 1, 0), [every], 1e-9)


def test_eq2_without_transform_is_the_mlp_model() -> None:
    block = perceptron("none")
    rows = texts(LENGTHS, WIDTH)
    x, valid = padded(rows)
    assert_rows(block(x, torch.full_like(x, 9.0), valid, 1), [layer_reading(block, row, 0.0) for row in rows], 1e-9)


def encoder(depth: int = 3, **settings: Any) -> SemanticPerceptronEncoder:
    return scattered(SemanticPerceptronConfig(width=WIDTH, hidden=12, depth=depth, **settings).build(CONTEXT))


def states_reading(stack: SemanticPerceptronEncoder, ids: list[int], draw: int = 0) -> list[Array]:
    """x⁰, then x^j = f^j(x^{j−1}, x⁰) of every layer (Eq. 3, 8), with the layers' orders."""
    x0 = stack.embedding.token.weight.detach().numpy()[ids]
    states = [x0]
    for layer, block in enumerate(stack.blocks, start=1):
        assert isinstance(block, SemanticPerceptron)
        moved: Array | float = 0.0
        if block.order == "random":
            places = orders(block, texts([len(ids)], WIDTH), layer, draw)[0]
            moved = paper.transformed(x0, places)
        states.append(layer_reading(block, states[-1], moved))
    return states


@pytest.mark.parametrize("order", ["random", "none"])
def test_eq3_every_layer_of_the_encoder(order: str) -> None:
    stack = encoder(order=order)
    encoded = stack(padded_ids(IDS, pad_id=4))
    read = [states_reading(stack, ids) for ids in IDS]
    assert len(encoded.states) == 4
    for j, states in enumerate(encoded.states):
        assert_rows(states, [row[j] for row in read], 1e-9)


def test_eq3_average_of_draws() -> None:
    stack = encoder(average=4)
    encoded = stack(padded_ids(IDS))
    read = [[states_reading(stack, ids, draw) for draw in range(4)] for ids in IDS]
    for j, states in enumerate(encoded.states):
        assert_rows(states, [np.mean([draw[j] for draw in row], axis=0) for row in read], 1e-9)
