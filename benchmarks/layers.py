"""Layers forward and backward: correlation attention over plain attention, the semantic perceptron over a Transformer.

The sizes are those of `transformer_f` and of `dmsp`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from benchmarks.timing import Plan, Reach, Row
from pithy.encoders.transformer import Block, TransformerConfig
from pithy.layers.attention import DotProductAttention
from pithy.layers.correlation import CorrelationAttention
from pithy.layers.semantic_perceptron import SemanticPerceptron

TOKENS = 4_096  # of a batch, padding included
WIDTH, DROPOUT = 128, 0.2
NARROW, HIDDEN = 64, 512  # of dmsp
PASSES = 20
Layer = Callable[[Tensor], Tensor]


def batch(length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors (B, L, D), mask and part-of-speech weights (B, L) of texts from 0.9 L to L tokens, as batches have."""
    torch.manual_seed(0)
    size = TOKENS // length
    lengths = torch.randint(int(0.9 * length), length + 1, (size, 1))
    valid = torch.arange(length) < lengths
    weight = torch.where(torch.rand(size, length) < 0.7, 1.0, 0.5)
    return torch.randn(size, length, width, requires_grad=True), valid, weight


def compare(plan: Plan, x: Tensor, ours: Layer, peer: Layer, work: str, unit: str, reach: Reach) -> Row:
    """Both layers in turn; `unit` is ms (of one pass) or k tokens/s."""
    passes = plan.size(PASSES)

    def timed(layer: Layer) -> dict[str, float]:
        start = perf_counter()
        for _ in range(passes):
            torch.autograd.backward(layer(x).sum())
        seconds = (perf_counter() - start) / passes
        return {"ms": 1000 * seconds, "k tokens/s": x.shape[0] * x.shape[1] / seconds / 1000}

    timed(ours), timed(peer)  # the first calls choose kernels and take memory
    mine, other = plan.alternate(lambda: timed(ours), lambda: timed(peer), rounds=11)
    return Row(work, unit, mine[unit], other[unit], reach)


def correlation_row(plan: Plan, length: int) -> Row:
    """Correlation attention with weights against scaled dot products, both on fused kernels."""
    x, valid, weight = batch(length, WIDTH)
    correlation = CorrelationAttention(width=WIDTH, dropout=DROPOUT)
    dot = DotProductAttention(width=WIDTH, heads=1, dropout=DROPOUT)
    return compare(
        plan,
        x,
        lambda x: correlation(x, valid, weight),
        lambda x: dot(x, valid),
        f"correlation attention, POS weight / SDPA, L = {length}",
        "ms",
        Reach("≤", 1.08, "ratio"),
    )


def perceptron_row(plan: Plan, length: int = 128) -> Row:
    """A semantic perceptron against a Transformer layer of the same widths."""
    x, valid, _ = batch(length, NARROW)
    perceptron = SemanticPerceptron(width=NARROW, hidden=HIDDEN, dropout=DROPOUT, order="random")
    block = Block(TransformerConfig(width=NARROW, hidden=HIDDEN, dropout=DROPOUT, heads=4))
    x0 = torch.randn_like(x, requires_grad=True)
    return compare(
        plan,
        x,
        lambda x: perceptron(x, x0, valid, 1),
        lambda x: block(x, valid, None),
        f"semantic perceptron / Transformer layer, L = {length}",
        "k tokens/s",
        Reach("≥", 4, "ratio"),
    )


def rows(plan: Plan) -> list[Row]:
    """One row a length."""
    torch.set_num_threads(1)
    return [*(correlation_row(plan, length) for length in (32, 128, 512)), perceptron_row(plan)]
