"""Convolutions over the tokens of a text, with zero padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from epigram.core.config_types import Checked, Positive
from epigram.nn.layers.autocast import to_autocast

Sizes = Annotated[list[Positive], Checked(len, "at least one window size, for example [2, 3, 4]")]


class Convolution(nn.Module):
    """Convolution with F = `filters` over windows of `size` tokens, zero-padded: (B, L, E) → (B, L, F).

    It is computed as one matrix product over windows, each flattened to size · E numbers. With token vectors
    in rows and weights in the layout of the product, forward and backward take less than half the time of `nn.Conv1d`
    on a CPU. A window of even size extends one token further to the right: size 2 reads a token and the next.
    """

    def __init__(self, *, inputs: int, filters: int, size: int, bias: bool = True) -> None:
        super().__init__()
        self.size = size
        self.product = nn.Linear(size * inputs, filters, bias)  # same initial distribution as `nn.Conv1d`

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (B, L, F) of the windows of `x` (B, L, E), which must be zero on padding."""
        length, before = x.shape[1], (self.size - 1) // 2
        x = to_autocast(x)  # converted before it is copied
        padded = pad(x, (0, 0, before, self.size - 1 - before))
        windows = torch.cat([padded[:, offset : offset + length] for offset in range(self.size)], 2)  # (B, L, size · E)
        features: Tensor = self.product(windows)
        return features


class Convolutions(nn.ModuleList):
    """TextCNN's convolutions of several window sizes, concatenated (Kim, 2014): (B, L, E) → (B, L, filters × sizes).

    `x` must be zero on padding.
    """

    def __init__(self, *, inputs: int, filters: int, sizes: Sequence[int]) -> None:
        super().__init__(Convolution(inputs=inputs, filters=filters, size=size) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of the window around each token, after ReLU."""
        return torch.cat([convolution(x) for convolution in self], 2).relu()


def masked_convolution(x: Tensor, valid: Tensor, convolution: Convolution) -> Tensor:
    """Apply `convolution` to `x` (B, C, L), with all positions that are not `valid` (B, L) set to zero: (B, F, L)."""
    rows = x.transpose(1, 2) * valid.unsqueeze(2).to(x.dtype)
    features: Tensor = convolution(rows)
    return features.transpose(1, 2)
