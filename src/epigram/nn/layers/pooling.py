"""Pooling over the valid tokens of a text: masks, means, maxima, and pooling that depends on its own length only."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import max_pool2d, pad


def masked_mean(x: Tensor, valid: Tensor) -> Tensor:
    """Return the mean of `x` (B, L, D) over valid tokens (B, L): (B, D), under autocast at least in float32."""
    weight, exact = valid.unsqueeze(-1).to(x.dtype), torch.promote_types(x.dtype, torch.float32)
    mean = (x * weight).sum(1, dtype=exact) / weight.sum(1, dtype=exact).clamp(min=1)
    return mean if torch.is_autocast_enabled(x.device.type) else mean.to(x.dtype)


def masked_max(x: Tensor, valid: Tensor) -> Tensor:
    """Return the maximum of `x` (B, L, D) over valid tokens (B, L): (B, D). Ties share the gradient equally."""
    above = mask_to_minimum(x, valid, 2)
    if torch.compiler.is_exporting():
        return above.amax(1)
    return cast(Tensor, _MaxOverTokens.apply(above))  # type: ignore[no-untyped-call]


def mask_to_minimum(x: Tensor, valid: Tensor, channels: int) -> Tensor:
    """Add the lowest finite number to `x` (B, L, D) or (B, D, L) where it is not `valid` (B, L).

    `channels` is the index of dimension D. An addition takes a third of the time of `masked_fill`, and its backward
    pass takes no time.
    """
    return x + lowest_where_false(valid, x.dtype).unsqueeze(channels)


def lowest_where_false(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where `mask` is True and the lowest finite number elsewhere; −∞ gives NaN if a row has no True."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `mask` as numbers to add to scores: a mask of numbers is returned as it is."""
    return lowest_where_false(mask, dtype) if mask.dtype == torch.bool else mask


def is_maximum(x: Tensor, peaks: Tensor) -> Tensor:
    """Return 1 where `x` equals `peaks`, else 0, in the type of `x`: a CPU takes five times as long for booleans."""
    return torch.eq(x, peaks, out=torch.empty_like(x))


class _MaxOverTokens(Function):
    """`amax` over the tokens with a backward pass that is fast on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the maxima (B, D) of `x` (B, L, D)."""
        peaks = x.amax(1)
        ctx.save_for_backward(x, peaks)
        return peaks

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Split the gradient of each maximum equally among the positions that attain it."""
        x, peaks = ctx.saved_tensors
        hits = is_maximum(x, peaks.unsqueeze(1))
        return hits.mul_((gradients[0] / hits.sum(1)).unsqueeze(1))


def key_mask(valid: Tensor, full: bool | None = None) -> Tensor | None:
    """Return the mask (B, 1, 1, L) of the keys that may be attended, or None if all tokens are valid (faster kernel).

    `full` says whether all tokens are valid; None reads it from `valid`, which waits for the device. An exported or
    CUDA-captured graph has one code path for all batches, so it always gets the mask.
    """
    mask = valid[:, None, None, :]
    captured = valid.is_cuda and torch.cuda.is_current_stream_capturing()
    if captured or torch.compiler.is_exporting():
        return mask
    return None if (bool(valid.all()) if full is None else full) else mask


def valid_positions(valid: Tensor, count: int | None = None) -> tuple[Tensor, ...]:
    """Return the row and the position of each of the T valid tokens (B, L): (T,), (T,).

    `count` is T; None reads it from `valid`, which waits for the device.
    """
    return (valid.nonzero() if count is None else valid.nonzero_static(size=count)).unbind(1)


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
