"""Attention with correlations as scores, softmax(C) V, as one function with a closed-form backward pass.

With C = r ∘ ρ and ρ = U Uᵀ, where r are the scales of the rows, and with the gradient Z of C, the gradient of U is
dρ U + dρᵀ U, where dρ = r ∘ Z + c ∘ ρ, and c is the gradient through the norms of the rows. B texts, L tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function

from epigram.nn.layers.dropout import keep_factors
from epigram.nn.torch_adapter import softmax_gradient

SMALLEST = 1e-6  # norm of a row of ρ; that of padding is 0


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
