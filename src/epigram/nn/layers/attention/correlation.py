"""Correlation attention (Transformer-F, Eq. 1–5): attention scores are correlations of token vectors.

With C = r ∘ ρ and ρ = U Uᵀ, where r are the scales of the rows, and with the gradient Z of C, the gradient of U is
dρ U + dρᵀ U, where dρ = r ∘ Z + c ∘ ρ, and c is the gradient through the norms of the rows. B texts, L tokens.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import layer_norm

from epigram.nn.layers.attention.dot_product import dot_product_attention, is_unfused, one_hot_values
from epigram.nn.layers.attention.pos_weighting import Placement, weigh
from epigram.nn.layers.dropout import keep_factors
from epigram.nn.layers.pooling import additive, key_mask
from epigram.nn.torch_adapter import softmax_gradient

SMALLEST = 1e-6  # minimum norm of a row of ρ; padding has norm 0


class Mix(NamedTuple):
    """Settings of the mix: `floor` (B, 1, L) is added to C, and `column` (B, 1, L) multiplies it, if given."""

    floor: Tensor | None
    column: Tensor | None
    row_norm: bool
    dropout: float


def mix(unit: Tensor, value: Tensor, temperature: Tensor, settings: Mix) -> Tensor:
    """Return softmax(C) V (B, L, D) with dropout on the weights.

    `unit` (B, L, D) are standardized token vectors U, `value` (B, L, D) is V, and `temperature` is a scalar.
    """
    return cast(Tensor, _CorrelationMix.apply(unit, value, temperature, settings))  # type: ignore[no-untyped-call]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _CorrelationMix(Function):
    """The function of `mix`."""

    @staticmethod
    def forward(ctx: Any, unit: Tensor, value: Tensor, temperature: Tensor, settings: Mix) -> Tensor:
        """Return softmax(C) V."""
        own = torch.bmm(unit, unit.transpose(1, 2))  # ρ (B, L, L)
        norms = _wide(own.norm(dim=-1, keepdim=True)).clamp_(min=SMALLEST) if settings.row_norm else None
        scale = (1 / (temperature if norms is None else temperature * norms)).to(own.dtype)  # r (B, L, 1)
        scores = own * scale
        if settings.column is not None:
            scores *= settings.column
        if settings.floor is not None:
            scores += settings.floor
        weights = scores.softmax(-1)
        kept = keep_factors(weights, settings.dropout)
        dropped = weights * kept
        ctx.save_for_backward(unit, value, temperature, own, norms, scale, weights, kept, dropped)
        ctx.column = settings.column
        return torch.bmm(dropped, value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        """Return the gradients of U, V and the temperature."""
        unit, value, temperature, own, norms, scale, weights, kept, dropped = ctx.saved_tensors
        [gradient] = gradients
        d_value = torch.bmm(dropped.transpose(1, 2), gradient)
        d_weights = torch.bmm(gradient, value.transpose(1, 2)).mul_(kept)
        z = softmax_gradient(d_weights, weights)
        if ctx.column is not None:
            z.mul_(ctx.column)
        along = _wide((z * own).sum(-1, keepdim=True)) * scale  # Z · C of each row
        d_own = z.mul_(scale)
        if norms is not None:
            d_own.addcmul_(own, (-along / norms.square()).to(own.dtype))
        d_unit = torch.bmm(d_own + d_own.transpose(1, 2), unit)
        d_temperature = -along.sum() / temperature if ctx.needs_input_grad[2] else None
        return d_unit, d_value, d_temperature, None


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

    `row_norm` scales each row of C to unit length (the paper's "regularizing"). C is divided by `temperature`; with
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

    `Correlation` explains the settings of C. Because ρ = x̂ x̂ᵀ, the fused kernel can compute the attention.
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
