"""Encoder that is only an embedding of the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import nn

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("embedding")
@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(WeightedEncoderSettings):
    """Settings of the encoder; `width` is the width of a token vector."""

    reads_whole_text: ClassVar[bool] = False

    width: Positive = 300
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2


class EmbeddingEncoder(Encoder, settings=EmbeddingConfig):
    """Token embeddings without positions or layers: (B, L) → (B, L, D)."""

    def __init__(self, config: EmbeddingConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.embedding = TokenEmbedding(
            context, width=config.width, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings (B, L, D)."""
        return Encoded((self.embedding(tokens),), tokens)
