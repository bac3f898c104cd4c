"""Correlation attention (Transformer-F, Eq. 1–5): attention scores are correlations of token vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from epigram.nn.layers.attention import dot_product_attention, is_unfused, one_hot_values
from epigram.nn.layers.correlation_mix import Mix, mix
from epigram.nn.layers.masking import additive, key_mask
from epigram.nn.layers.pos_weighting import Placement, weigh


def standardize(x: Tensor, valid: Tensor | None) -> Tensor:
    """Centre each token vector of `x` (B, L, D) and scale it to unit length, so that x̂_i · x̂_j = ρ_ij.  Eq. 3, 4.

    Padding, where `valid` (B, L) is False, and vectors with zero variance become zero.
    """
    with torch.no_grad():  # a range within rounding error counts as constant
        low, high = x.amin(-1), x.amax(-1)
        varied = high - low > 1e-5 * torch.maximum(high, -low) + 1e-9  # (B, L)
    share = (varied if valid is None else varied & valid).to(x.dtype) / math.sqrt(x.shape[-1])
    return layer_norm(x, x.shape[-1:], eps=1e-16) * share.unsqueeze(-1)


def row_norms(unit: Tensor) -> Tensor:
    """Return the L2 norm of each row of ρ over valid keys, (B, L, 1), for `unit` (B, L, D) that is zero on padding.

    Σ_j (x̂_i · x̂_j)² = x̂_iᵀ G x̂_i with G = Σ_j x̂_j x̂_jᵀ. Only the smaller of the L×L and D×D matrices is built.
    """
    if unit.shape[1] <= unit.shape[2]:
        squares = torch.bmm(unit, unit.transpose(1, 2)).square().sum(-1, keepdim=True)
    else:
        gram = torch.bmm(unit.transpose(1, 2), unit)  # (B, D, D)
        squares = (torch.bmm(unit, gram) * unit).sum(-1, keepdim=True)
    return squares.clamp(min=1e-12).sqrt()


class Correlation(nn.Module):
    """Scores of correlation attention, the correlations C of token vectors, as products of queries and keys.

    `row_norm` scales each row of C to unit length (the paper's "regularising"). C is divided by `temperature`; with
    `learn_temperature` this is the initial value of a trainable parameter.
    """

    def __init__(self, *, row_norm: bool = True, temperature: float = 1.0, learn_temperature: bool = False) -> None:
        super().__init__()
        self.row_norm = row_norm
        self.temperature = nn.Parameter(torch.tensor(temperature), requires_grad=learn_temperature)

    def query(self, unit: Tensor) -> Tensor:
        """Return q (B, L, D) with q · x̂ᵀ = C / temperature for the standardized token vectors `unit`.  Eq. 2."""
        scale = 1 / (self.temperature * (row_norms(unit) if self.row_norm else 1.0))  # per row of C
        return unit * scale.to(unit.dtype)


class CorrelationAttention(Correlation):
    """One-head attention softmax(C) · diag(w) · (X W_V) W_O with C the correlations ρ: (B, L, D) → (B, L, D).

    The settings of C are those of `Correlation`. Because ρ = x̂ x̂ᵀ, the fused kernel can compute the attention.
    """

    def __init__(
        self,
        *,
        width: int,
        dropout: float,
        row_norm: bool = True,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        placement: Placement = "after",
    ) -> None:
        super().__init__(row_norm=row_norm, temperature=temperature, learn_temperature=learn_temperature)
        self.dropout, self.placement = dropout, placement
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None = None, full: bool | None = None) -> Tensor:
        """Attend from every token of `x` (B, L, D) to the `valid` tokens (B, L), weighted by `weight` (B, L).

        `full` says whether all tokens are valid, if the host knows it.
        """
        value = self.value(x)
        unit = standardize(x, valid).to(value.dtype)  # under autocast, cast once for all products
        dropout = self.dropout if self.training else 0.0
        attend = self._unfused if is_unfused(x, dropout) else self._fused
        mask = key_mask(valid, full)
        out: Tensor = self.out(attend(unit, value.unsqueeze(1), mask, weight, dropout).squeeze(1))
        return out

    def attention_weights(
        self, x: Tensor, valid: Tensor, weight: Tensor | None = None, full: bool | None = None
    ) -> Tensor:
        """Return the weight of each key for each query, with part-of-speech weights: (B, 1, L, L)."""
        unit = standardize(x, valid)
        return self._fused(unit, one_hot_values(unit.unsqueeze(1)), key_mask(valid, full), weight, 0.0)

    def _fused(self, unit: Tensor, v: Tensor, mask: Tensor | None, weight: Tensor | None, dropout: float) -> Tensor:
        q, k = self.query(unit).unsqueeze(1), unit.unsqueeze(1)  # (B, 1, L, D)
        if weight is not None:
            k, v, mask = weigh(k, v, mask, weight, self.placement)  # Eq. 5
        return dot_product_attention(q, k, v, mask, scale=1.0, dropout=dropout)  # Eq. 1

    def _unfused(self, unit: Tensor, v: Tensor, mask: Tensor | None, weight: Tensor | None, dropout: float) -> Tensor:
        column = None
        if weight is not None:
            inside, v, mask = weigh(unit.new_ones(()), v, mask, weight, self.placement)  # Eq. 5
            column = inside.squeeze(1).transpose(1, 2) if self.placement == "inside" else None
        floor = None if mask is None else additive(mask, unit.dtype).squeeze(1)
        settings = Mix(floor, column, self.row_norm, dropout)
        return mix(unit, v.squeeze(1), self.temperature, settings).unsqueeze(1)
