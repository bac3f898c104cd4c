"""Bidirectional LSTM encoder that adds both directions (Zhou et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import nn

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("bilstm")
@dataclass(frozen=True, kw_only=True)
class BiLstmConfig(WeightedEncoderSettings):
    """Settings of the encoder; `width` is the width of the token vectors and of each direction."""

    has_layers: ClassVar[bool] = True

    width: Positive = 128
    depth: Positive = 1
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3


class BiLstmEncoder(Encoder, settings=BiLstmConfig):
    """Embeddings and N bidirectional LSTMs; a token's state is the sum of both directions' states (Eq. 8)."""

    def __init__(self, config: BiLstmConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.embedding = TokenEmbedding(
            context, width=config.width, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.blocks = nn.ModuleList(
            BiLstm(inputs=config.width, width=2 * config.width, dropout=config.dropout) for _ in range(config.depth)
        )

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of the embeddings and of every layer, (B, L, D) each."""
        states = [self.embedding(tokens)]
        for block in self.blocks:
            both, _ = block(states[-1], tokens.valid, tokens.shortest)  # (B, L, 2D)
            states.append(both[..., : self.width] + both[..., self.width :])  # Eq. 8
        return Encoded(tuple(states), tokens)
