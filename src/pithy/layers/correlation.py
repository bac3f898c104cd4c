"""Correlation attention (Transformer-F, Eq. 1–5): tokens attend by the correlation of their vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pithy.layers.attention import attended
from pithy.layers.masking import key_mask
from pithy.layers.weighting import Placement, weigh


def standardize(x: Tensor, valid: Tensor) -> Tensor:
    """Centre each token vector of `x` (B, L, D) and scale it to unit length, so that x̂_i · x̂_j = ρ_ij.  Eq. 3, 4.

    A vector without variance (padding) becomes zero.
    """
    centred = x - x.mean(-1, keepdim=True)
    length = centred.norm(dim=-1, keepdim=True)
    varied = length > 1e-5 * x.norm(dim=-1, keepdim=True) + 1e-9  # what is left of a constant is rounding
    return torch.where(varied & valid.unsqueeze(-1), centred / length.clamp(min=1e-9), 0.0)


def row_norms(unit: Tensor) -> Tensor:
    """L2 norm of each row of ρ over valid keys, (B, L, 1), for `unit` (B, L, D) that is zero on padding.

    Σ_j (x̂_i · x̂_j)² = x̂_iᵀ G x̂_i with G = Σ_j x̂_j x̂_jᵀ: the smaller of the L×L and the D×D matrix is built.
    """
    if unit.shape[1] <= unit.shape[2]:
        squares = torch.bmm(unit, unit.transpose(1, 2)).square().sum(-1, keepdim=True)
    else:
        gram = torch.bmm(unit.transpose(1, 2), unit)  # (B, D, D)
        squares = (torch.bmm(unit, gram) * unit).sum(-1, keepdim=True)
    return squares.clamp(min=1e-12).sqrt()


class CorrelationAttention(nn.Module):
    """softmax(C) · diag(w) · (X W_V) W_O with C the correlations ρ, one head: (B, L, D) → (B, L, D).

    `row_norm` scales each row of C to unit length (the paper's "regularising"). C is divided by `temperature`, which
    is learnt from there on with `learn_temperature`. Since ρ = x̂ x̂ᵀ, all of it runs on the fused kernel.
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
        super().__init__()
        self.dropout, self.row_norm, self.placement = dropout, row_norm, placement
        self.temperature = nn.Parameter(torch.tensor(temperature), requires_grad=learn_temperature)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None = None) -> Tensor:
        """Attend from every token of `x` (B, L, D) to the `valid` ones (B, L), weighed by `weight` (B, L)."""
        unit = standardize(x, valid)
        query = (unit / row_norms(unit) if self.row_norm else unit) / self.temperature  # Eq. 2, rows of C
        q, k, v = (t.unsqueeze(1) for t in (query.to(x.dtype), unit, self.value(x)))  # (B, 1, L, D)
        mask = key_mask(valid)
        if weight is not None:
            k, v, mask = weigh(k, v, mask, weight, self.placement)  # Eq. 5
        y = attended(q, k, v, mask, scale=1.0, dropout=self.dropout if self.training else 0.0)  # Eq. 1
        out: Tensor = self.out(y.squeeze(1))
        return out
