"""Text encoder of CNLE (Liu et al., 2021): token vectors, a projection and a BiLSTM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from epigram.core.config_types import Checked, Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("projected_bilstm")
@dataclass(frozen=True, kw_only=True)
class ProjectedBiLstmConfig(WeightedEncoderSettings):
    """Settings of the encoder; `width` is the width of the projected vectors and of both directions together."""

    embedding: Positive = 300
    width: Annotated[
        Positive, Checked(lambda given: given % 2 == 0, "an even number, half of it for each direction")
    ] = 256
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2  # rate on the embeddings
    state_dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.4  # rate on the states


class ProjectedBiLstmEncoder(Encoder, settings=ProjectedBiLstmConfig):
    """X = BiLSTM(proj(emb(text))); a head may encode the labels with the same BiLSTM."""

    def __init__(self, config: ProjectedBiLstmConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.embedding = TokenEmbedding(
            context, width=config.embedding, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.project = nn.Linear(config.embedding, config.width)
        self.bilstm = BiLstm(inputs=config.width, width=config.width, dropout=config.state_dropout)
        self.blocks = nn.ModuleList()

    @property
    def label_bilstm(self) -> BiLstm:
        """The BiLSTM of the texts, which a head may use to encode the labels."""
        return self.bilstm

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings (B, L, E) and the states of the BiLSTM (B, L, D)."""
        x = self.embedding(tokens)
        states, _ = self.bilstm(self.project(x), tokens.valid, tokens.shortest)
        return Encoded((x, states), tokens)
