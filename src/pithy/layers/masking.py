"""Means, maxima and attention masks over valid tokens only, so that padding never shows."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(x: Tensor, valid: Tensor) -> Tensor:
    """Mean of `x` (B, L, D) over valid tokens: (B, D)."""
    weight = valid.unsqueeze(-1).to(x.dtype)
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


def masked_max(x: Tensor, valid: Tensor) -> Tensor:
    """Maximum of `x` (B, L, D) over valid tokens: (B, D)."""
    return x.masked_fill(~valid.unsqueeze(-1), torch.finfo(x.dtype).min).amax(1)


def key_mask(valid: Tensor) -> Tensor | None:
    """(B, 1, 1, L) mask of the keys that may be attended; None where every token is valid (the faster kernel).

    A graph, exported or captured, takes one way for every batch and always has the mask.
    """
    mask = valid[:, None, None, :]
    captured = valid.is_cuda and torch.cuda.is_current_stream_capturing()
    return mask if captured or torch.compiler.is_exporting() or not bool(valid.all()) else None
