"""Region embedding encoder (Qiao et al., 2018): each word has its own weights for its neighbours' vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from epigram.core.config_types import Count, Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("region")
@dataclass(frozen=True, kw_only=True)
class RegionConfig(WeightedEncoderSettings):
    """Settings of the encoder.

    A region is a token with `radius` neighbours on each side. Every vocabulary entry has one weight vector K per
    position of its region.
    """

    reads_whole_text: ClassVar[bool] = False

    width: Positive = 128
    radius: Count = 3
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2


class RegionEncoder(Encoder, settings=RegionConfig):
    """Region vectors r_i = max over t = −s..s of K_{w_i, t} ⊙ e_{w_{i+t}}, with s the radius.

    Positions outside the text are not part of the maximum. K and e of the unknown token start at zero, because they may
    never be trained.
    """

    def __init__(self, config: RegionConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.embedding = TokenEmbedding(
            context, width=config.width, dropout=config.dropout, pos_weight=config.pos_weight
        )
        units = [nn.Embedding(context.vocabulary, config.width) for _ in range(2 * config.radius + 1)]
        for unit in units:
            nn.init.zeros_(unit.weight[context.unk_id])
        self.units = nn.ModuleList(units)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings and the region vectors, (B, L, D) each."""
        x, valid, radius = self.embedding(tokens), tokens.valid, self.config.radius
        wide, exists = pad(x, (0, 0, radius, radius)), pad(valid, (radius, radius))
        length, low = x.shape[1], torch.finfo(x.dtype).min
        region: Tensor | None = None
        for offset, unit in enumerate(self.units):
            near = unit(tokens.ids) * wide[:, offset : offset + length]
            near = near.masked_fill(~exists[:, offset : offset + length].unsqueeze(-1), low)
            region = near if region is None else torch.maximum(region, near)
        assert region is not None
        return Encoded((x, region.masked_fill(~valid.unsqueeze(-1), 0.0)), tokens)
