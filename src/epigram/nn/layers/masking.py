"""Means, maxima and attention masks over valid tokens only, so that padding never affects a result."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function


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
