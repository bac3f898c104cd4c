"""Convolutions over the tokens of a text, zero beyond it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class Convolutions(nn.ModuleList):
    """TextCNN's filters of several sizes side by side (Kim, 2014): (B, L, E) → (B, L, filters × sizes).

    `x` must be zero on padding; the width of a window is even to the right: size 2 reads a token and the next.
    """

    def __init__(self, *, inputs: int, filters: int, sizes: Sequence[int]) -> None:
        super().__init__(nn.Conv1d(inputs, filters, size) for size in sizes)
        self.sizes = list(sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Rectified features of the window around each token."""
        rows = x.transpose(1, 2)  # (B, E, L)
        features = []
        for size, convolution in zip(self.sizes, self, strict=True):
            before = (size - 1) // 2
            features.append(convolution(pad(rows, (before, size - 1 - before))))  # (B, filters, L)
        return torch.cat(features, 1).transpose(1, 2).relu()


def convolved(x: Tensor, valid: Tensor, convolution: nn.Conv1d) -> Tensor:
    """`convolution` of `x` (B, C, L) where what stands beyond the `valid` positions (B, L) counts as zero."""
    out: Tensor = convolution(x * valid.unsqueeze(1).to(x.dtype))
    return out
