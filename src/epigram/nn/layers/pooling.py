"""Pooling over the positions of a text that depends on its own length only, not on that of its batch."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import max_pool2d, pad

from epigram.nn.layers.masking import is_maximum, mask_to_minimum


def halve(x: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Max-pool with window 3 and stride 2: (B, C, L), (B, L) → (B, C, ⌈L/2⌉) and the new mask (B, ⌈L/2⌉).

    A row of n positions keeps ⌈n/2⌉ of them. Johnson and Zhang (2017), Conneau et al. (2017).
    """
    rows, kept = mask_to_minimum(x, valid, 1), valid[:, ::2]
    if torch.compiler.is_exporting():  # max_pool1d does not trace a dynamic length
        pooled = max_pool2d(rows.unsqueeze(2), (1, 3), stride=(1, 2), padding=(0, 1)).squeeze(2)
    else:
        pooled = cast(Tensor, _HalvingMaxPool.apply(rows))  # type: ignore[no-untyped-call]
    return pooled * kept.unsqueeze(1).to(x.dtype), kept  # `masked_fill` would change the memory layout


class _HalvingMaxPool(Function):
    """Max pooling by slices of even and odd positions; on a CPU it takes a fraction of PyTorch's time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the maxima (B, C, ⌈L/2⌉) of `x` (B, C, L)."""
        even, odd = x[..., ::2], x[..., 1::2]
        count, last = odd.shape[2], even.shape[2] - 1
        peaks = even.clone()
        torch.maximum(peaks[..., :count], odd, out=peaks[..., :count])
        torch.maximum(peaks[..., 1:], odd[..., :last], out=peaks[..., 1:])
        ctx.save_for_backward(x, peaks)
        return peaks

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Pass the gradient of each maximum to one position that attains it: middle first, then right, then left."""
        x, peaks = ctx.saved_tensors
        even, odd, gradient = x[..., ::2], x[..., 1::2], torch.empty_like(x)
        count, last = odd.shape[2], even.shape[2] - 1
        passed = torch.mul(is_maximum(even, peaks), gradients[0], out=gradient[..., ::2])
        remaining = gradients[0] - passed
        passed = torch.mul(is_maximum(odd, peaks[..., :count]), remaining[..., :count], out=gradient[..., 1::2])
        remaining[..., :count] -= passed
        gradient[..., 1 : 2 * last : 2] += remaining[..., 1:]
        return gradient


def k_max(x: Tensor, valid: Tensor, k: int) -> Tensor:
    """Return the k largest values of each channel in text order: (B, C, L) → (B, C, k), zeros if a row has fewer.

    Of equal values the first ones are taken.
    """
    missing = k if torch.compiler.is_exporting() else max(0, k - x.shape[2])  # an exported graph must accept any length
    x, valid = pad(x, (0, missing)), pad(valid, (0, missing))
    ranked = x.masked_fill(~valid.unsqueeze(1), torch.finfo(x.dtype).min).argsort(dim=2, descending=True, stable=True)
    positions = ranked[..., :k].sort(2).values  # padding is last in rank and in position
    return (x * valid.unsqueeze(1).to(x.dtype)).gather(2, positions)


class AttentionPool(nn.Module):
    """Attention pooling tanh(Σ_i α_i h_i) with α = softmax(wᵀ tanh(h)) over valid tokens: (B, L, D) → (B, D).

    Zhou et al. (2016), Eq. 9–12.
    """

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, 1, bias=False)

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:
        """Pool the `states` (B, L, D) of the `valid` tokens (B, L)."""
        scores = self.query(states.tanh()).squeeze(-1)  # Eq. 9
        shares = scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(1)  # Eq. 10
        return torch.bmm(shares.unsqueeze(1), states).squeeze(1).tanh()  # Eq. 11, 12
