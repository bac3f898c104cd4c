"""Deep pyramid convolutional network, DPCNN (Johnson and Zhang, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor, nn

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.convolution import Convolution, masked_convolution
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.pooling import halve
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("dpcnn")
@dataclass(frozen=True, kw_only=True)
class DpcnnConfig(WeightedEncoderSettings):
    """Settings of the encoder.

    `levels` is the number of blocks of two convolutions; each block except the first halves the text. The paper's depth
    of 15 has 7 levels.
    """

    keeps_tokens: ClassVar[bool] = False

    embedding: Positive = 128
    filters: Positive = 250
    levels: Positive = 5
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3

    def state_width(self, context: DataSpec) -> int:
        """Return the number of filters."""
        return self.filters


class PyramidBlock(nn.Module):
    """Residual block x + f(x), where f is two convolutions with pre-activation, W σ(x) + b: (B, C, L) → (B, C, L).

    C is the number of filters and σ is ReLU.
    """

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first = Convolution(inputs=filters, filters=filters, size=3)
        self.second = Convolution(inputs=filters, filters=filters, size=3)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Apply the block to `x` (B, C, L) with valid positions `valid` (B, L)."""
        return x + masked_convolution(masked_convolution(x.relu(), valid, self.first).relu(), valid, self.second)


class DpcnnEncoder(Encoder, settings=DpcnnConfig):
    """Region embedding of 3 tokens, then levels, each with half as many positions as the level before.

    A text of n tokens ends with ⌈n / 2^(levels − 1)⌉ positions, independent of its batch.
    """

    def __init__(self, config: DpcnnConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.filters
        self.embedding = TokenEmbedding(
            context, width=config.embedding, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.region = Convolution(inputs=config.embedding, filters=config.filters, size=3)
        self.levels = nn.ModuleList(PyramidBlock(config.filters) for _ in range(config.levels))
        self.blocks = nn.ModuleList()  # levels differ in length, so depth control cannot drop any

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the last level's states (B, ⌈L / 2^(levels − 1)⌉, D) and the tokens at their centres."""
        ids, valid = tokens.ids, tokens.valid
        x = masked_convolution(self.embedding(tokens).transpose(1, 2), valid, self.region)  # (B, D, L)
        for level, block in enumerate(self.levels):
            if level:
                x, valid = halve(x, valid)
                ids = ids[:, ::2]
            x = block(x, valid)
        return Encoded((x.transpose(1, 2),), Tokens(ids, valid))
