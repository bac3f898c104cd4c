"""Frozen table of token vectors with one byte per number."""

from __future__ import annotations

import torch
from torch import Tensor, nn

GROUPS = 17  # the rows v with the same v mod 17 share scale and offset


class QuantizedEmbedding(nn.Module):
    """Token vectors scale · code + offset, with codes from 0 to 255: (B, L) → (B, L, E).

    The table (V, E) is not trained. Without a checkpoint the codes are random, so that vectors are between -1 and 1.
    """

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.empty(rows, width, dtype=torch.uint8).random_(0, 256))
        self.register_buffer("scale", torch.full((GROUPS,), 2 / 255))
        self.register_buffer("offset", torch.full((GROUPS,), -1.0))
        self.codes: Tensor
        self.scale: Tensor
        self.offset: Tensor

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of `ids` (B, L)."""
        group = ids % GROUPS
        return self.codes[ids].to(self.scale.dtype) * self.scale[group].unsqueeze(-1) + self.offset[group].unsqueeze(-1)
