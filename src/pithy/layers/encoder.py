"""What every encoder offers: hidden states of every layer, and a depth that can be cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from pithy.layers.types import Encoded, Tokens


class Encoder(nn.Module):
    """Texts to hidden states (B, L, D) of every layer; `blocks` are its layers, none where it has no depth."""

    config: Any
    width: int
    blocks: nn.ModuleList

    @property
    def depth(self) -> int:
        """Number of layers N."""
        return len(self.blocks)

    @property
    def settings(self) -> Any:
        """The config that builds this encoder as it is now, without its weights."""
        return replace(self.config, depth=self.depth) if self.depth else self.config

    def drop(self, layer: int) -> None:
        """Take out one layer (0-based; -1 is the last)."""
        del self.blocks[layer]

    def forward(self, tokens: Tokens) -> Encoded:
        """Encode a batch (B, L)."""
        raise TypeError(f"{type(self).__name__} does not encode")
