"""Base class of the encoders: hidden states of every layer, and layers that can be removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from epigram.nn.layers.bilstm import BiLstm
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.types import Encoded, Tokens


class Encoder(nn.Module):
    """Encoder from texts to the hidden states (B, L, D) of every layer.

    `blocks` holds the layers that can be removed; it is empty for an encoder without such layers. `width` is D. A state
    depends on its own token and on at most `reach` tokens to its left and to its right; None: there is no such limit.
    """

    config: Any
    width: int
    embedding: TokenEmbedding
    blocks: nn.ModuleList
    reach: tuple[int, int] | None = None
    keeps_tokens: ClassVar[bool] = True  # whether there is one state per token
    pooled: ClassVar[bool] = False  # whether there is one state per text

    @property
    def depth(self) -> int:
        """The number of layers N."""
        return len(self.blocks)

    @property
    def state_count(self) -> int:
        """The number of states that a head may read side by side: by default the embeddings and the N layers."""
        return self.depth + 1

    @property
    def token_table(self) -> nn.Embedding:
        """The embedding table (V, E) of the token ids."""
        return self.embedding.token

    @property
    def label_bilstm(self) -> BiLstm | None:
        """The BiLSTM of the encoder that a head may use to encode the labels; None if there is none."""
        return None

    @property
    def settings(self) -> Any:
        """The config that builds this encoder with its current depth, without its weights."""
        return replace(self.config, depth=self.depth) if self.depth else self.config

    def drop(self, layer: int) -> None:
        """Remove one layer (0-based; -1 is the last)."""
        del self.blocks[layer]

    def forward(self, tokens: Tokens) -> Encoded:
        """Encode a batch (B, L). Raises TypeError in a subclass that does not override it."""
        raise TypeError(f"{type(self).__name__} does not override Encoder.forward")
