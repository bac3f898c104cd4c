"""TextCNN's convolutional encoder (Kim, 2014)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from torch import nn

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.convolution import Convolutions, Sizes
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("convolution")
@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(WeightedEncoderSettings):
    """Settings of the encoder: width of the token vectors, filters per window size, and window sizes in tokens."""

    reads_whole_text: ClassVar[bool] = False

    embedding: Positive = 128
    filters: Positive = 256
    sizes: Sizes = field(default_factory=lambda: [2, 3, 4])
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3

    def state_width(self, context: DataSpec) -> int:
        """Return the number of features."""
        return self.filters * len(self.sizes)


class ConvolutionEncoder(Encoder, settings=ConvolutionConfig):
    """One layer of zero-padded convolutions of several sizes, concatenated, so that D = filters × sizes."""

    def __init__(self, config: ConvolutionConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.filters * len(config.sizes)
        self.embedding = TokenEmbedding(
            context, width=config.embedding, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.convolutions = Convolutions(inputs=config.embedding, filters=config.filters, sizes=config.sizes)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings (B, L, E) and the features (B, L, filters × sizes)."""
        x = self.embedding(tokens)
        return Encoded((x, self.convolutions(x)), tokens)
