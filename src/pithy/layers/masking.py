"""Means, maxima and attention masks over valid tokens only, so that padding never shows."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function


def masked_mean(x: Tensor, valid: Tensor) -> Tensor:
    """Mean of `x` (B, L, D) over valid tokens: (B, D)."""
    weight = valid.unsqueeze(-1).to(x.dtype)
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


def masked_max(x: Tensor, valid: Tensor) -> Tensor:
    """Maximum of `x` (B, L, D) over valid tokens: (B, D). Equal ones share its gradient."""
    above = floored(x, valid, 2)
    if torch.compiler.is_exporting():
        return above.amax(1)
    return cast(Tensor, _Peak.apply(above))  # type: ignore[no-untyped-call]


def floored(x: Tensor, valid: Tensor, channels: int) -> Tensor:
    """`x` (B, L, D), or (B, D, L), as low as can be where it is not `valid` (B, L); `channels` is D's dimension.

    An addition takes a third of the time of filling, and its backward nothing.
    """
    floor = torch.zeros_like(valid, dtype=x.dtype).masked_fill_(~valid, torch.finfo(x.dtype).min)
    return x + floor.unsqueeze(channels)


def hits_of(x: Tensor, peaks: Tensor) -> Tensor:
    """1 where `x` is a peak, 0 below it: as numbers, since a CPU takes five times as long to make booleans."""
    return torch.eq(x, peaks, out=torch.empty_like(x))


class _Peak(Function):
    """`amax` over the tokens, with a gradient that is quick on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Peaks (B, D) of `x` (B, L, D)."""
        peaks = x.amax(1)
        ctx.save_for_backward(x, peaks)
        return peaks

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Each peak's gradient in equal parts to the places that have it."""
        x, peaks = ctx.saved_tensors
        hits = hits_of(x, peaks.unsqueeze(1))
        return hits.mul_((gradients[0] / hits.sum(1)).unsqueeze(1))


def key_mask(valid: Tensor) -> Tensor | None:
    """(B, 1, 1, L) mask of the keys that may be attended; None where every token is valid (the faster kernel).

    A graph, exported or captured, takes one way for every batch and always has the mask.
    """
    mask = valid[:, None, None, :]
    captured = valid.is_cuda and torch.cuda.is_current_stream_capturing()
    return mask if captured or torch.compiler.is_exporting() or not bool(valid.all()) else None
