"""What every encoder offers: hidden states of every layer, and a depth that can be cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from pithy.layers.embedding import TokenEmbedding
from pithy.layers.types import Encoded, Tokens


class Encoder(nn.Module):
    """Texts to hidden states (B, L, D) of every layer; `blocks` are its layers, none where it has no depth."""

    config: Any
    width: int
    embedding: TokenEmbedding
    blocks: nn.ModuleList
    keeps_tokens: ClassVar[bool] = True  # a state for every token of the text

    @property
    def depth(self) -> int:
        """Number of layers N."""
        return len(self.blocks)

    @property
    def token_table(self) -> nn.Embedding:
        """The vectors (V, E) that `ids` look up."""
        return self.embedding.token

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
