"""Data, layers and states of the float64 NumPy references of complete models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epigram.models.classifier import NeuralClassifier
from epigram.models.recipe import ENCODERS, HEADS, parse_part
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.types import DataSpec, Tokens
from tests.parity.reference import head_to_head as hth_paper
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.attention import scores, weighted
from tests.parity.reference.batches import Module, pair, scattered
from tests.parity.reference.common import Array, cross_entropy, linear, softmax
from tests.parity.reference.weights import array

VOCABULARY, CLASSES, MASK = 13, 3, 4


IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 12, 6]]
LABELS = [0, 2, 1, 1]
PROMPT = [1, 9, MASK, 8, MASK]
POS = np.where(np.arange(VOCABULARY) % 3 == 0, 0.25, 1.0)  # part-of-speech weight of each vocabulary entry
CONTEXT = DataSpec(
    vocabulary=VOCABULARY,
    classes=CLASSES,
    max_length=20,
    mask_id=MASK,
    prefix_ids=tuple(PROMPT),
    pos_weight=torch.from_numpy(POS).float(),
)
Masks = Sequence[Array]  # dropout masks of attention weights, (H, L, L) for each layer
Keys = Callable[[int], Array]  # sort keys (B, L) of a semantic perceptron's layer, counted from 0


@dataclass(frozen=True)
class Whole:
    """Model with its input batch and the expected `logits` (B, C) and `loss`.

    With `normalized`, the expected logits are log-probabilities; the model's logits may differ by a constant per
    text.
    """

    model: NeuralClassifier
    tokens: Tokens
    labels: Tensor
    logits: Array
    loss: float
    normalized: bool = False

    def answered(self, logits: Tensor) -> Array:
        """Return the model's `logits` (B, C) in the form that is compared."""
        found = logits.detach().double()
        return (found.log_softmax(-1) if self.normalized else found).numpy()


def mean_loss(logits: Array) -> float:
    """Return the mean cross-entropy for LABELS."""
    return float(np.mean([cross_entropy(softmax(row), y) for row, y in zip(logits, LABELS, strict=True)]))


def built(
    encoder: dict[str, Any], head: dict[str, Any], context: DataSpec = CONTEXT, gain: float = 1.2
) -> NeuralClassifier:
    """Return a float64 model without dropout whose sums have the same spread at every width."""
    made = parse_part(ENCODERS, encoder, "encoder").build(context)
    model = NeuralClassifier(made, parse_part(HEADS, head, "head").build(context, made))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):  # the rate of an attention layer
            module.dropout = 0.0  # type: ignore[assignment]
    return spread(scattered(model), gain).train()


def spread(model: Module, gain: float = 1.2) -> Module:
    """Scale weights by 1/√inputs, so that sums are about `gain` at every width; keep vectors near 1, biases small."""
    kept = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.LayerNorm)}
    for parameter in model.parameters():
        if parameter.requires_grad:  # initialized with a standard deviation of 0.4
            size = 1.0 if id(parameter) in kept else 0.2 if parameter.dim() < 2 else gain / parameter.shape[-1] ** 0.5
            parameter.data *= size / 0.4
    return model


def words(model: Any, ids: Sequence[int]) -> Array:
    """Return the token vectors (L, D)."""
    return array(model.encoder.embedding.token.weight)[list(ids)]


def out(model: Any, row: Array) -> Array:
    """Return the linear head's logits (C,) for a text vector."""
    return linear(row, *pair(model.head.out))


# Transformers


def mixed(layer: Any, x: Array, weight: Array, masks: Array | None = None) -> Array:
    """Return an attention's output (L, D) for `x` with token weights `weight`; `masks` are its dropout masks."""
    kept = np.ones((getattr(layer, "heads", 1), len(x), len(x))) if masks is None else masks
    if isinstance(layer, CorrelationAttention):
        spread = paper.attention(x, weight, layer.placement, layer.row_norm, layer.temperature.item())
        return linear((spread * kept[0]) @ linear(x, *pair(layer.value)), *pair(layer.out))
    q, k, v = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
    return linear(context_of(layer, q, k, v, weight, kept), *pair(layer.out))


def context_of(layer: Any, q: Array, k: Array, v: Array, weight: Array, kept: Array) -> Array:
    """Return the concatenated heads (L, D) of a dot-product attention, with its head-to-head attention if any."""
    gate = layer.head_to_head
    q, k, v = (np.split(each, layer.heads, axis=1) for each in (q, k, v))
    raw = [scores(*each) for each in zip(q, k, strict=True)]
    if gate is not None and gate.site == "scores":
        raw = [f * u for f, u in zip(factors(gate, raw), raw, strict=True)]
    shares = [weighted(u, weight, layer.placement) * mask for u, mask in zip(raw, kept, strict=True)]
    context = [share @ each for share, each in zip(shares, v, strict=True)]
    if gate is not None and gate.site == "context":
        context = [f * c for f, c in zip(factors(gate, context), context, strict=True)]
    return np.concatenate(context, axis=1)


def factors(gate: Any, features: Sequence[Array]) -> Array:
    """Return the factor of each head (H,) by head-to-head attention."""
    strength = None if gate.strength is None else gate.strength.item()
    return hth_paper.factors(hth_paper.squeezed(features), pair(gate.first), pair(gate.second), strength)


def block(layer: Any, x: Array, weight: Array, masks: Array | None = None) -> Array:
    """Return the output of one post-LN Transformer layer."""
    feed = [pair(layer.hidden[0]), pair(layer.hidden[-1])]
    return paper.block(
        x, mixed(layer.attention, x, weight, masks), [pair(layer.norm_attention), pair(layer.norm_hidden)], feed
    )


def states(model: Any, ids: Sequence[int], masks: Masks | None = None) -> list[Array]:
    """Return the embeddings with learned positions, then each block's output."""
    encoder = model.encoder
    weight = np.ones(len(ids)) if encoder.pos_weight is None else POS[list(ids)]
    found = [words(model, ids) + array(encoder.embedding.position.weight)[: len(ids)]]
    for number, layer in enumerate(encoder.blocks):
        found.append(block(layer, found[-1], weight, None if masks is None else masks[number]))
    return found
