"""The deep pyramid convolutional network, DPCNN (Johnson and Zhang, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

from pithy.layers.convolution import Convolution, convolved
from pithy.layers.embedding import TokenEmbedding
from pithy.layers.encoder import Encoder
from pithy.layers.pooling import halved
from pithy.layers.types import Context, Encoded, Tokens
from pithy.values import Positive, Range, Strict


@dataclass(frozen=True, kw_only=True)
class DpcnnConfig(Strict):
    """`levels` are blocks of two convolutions; each but the first halves the text (the paper's depth of 15 has 7)."""

    embedding: Positive = 128
    filters: Positive = 250
    levels: Positive = 5
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3

    def build(self, context: Context) -> DpcnnEncoder:
        """The encoder for the data's vocabulary."""
        return DpcnnEncoder(self, context)


class PyramidBlock(nn.Module):
    """x + f(x), f two convolutions with pre-activation W σ(x) + b: (B, C, L) → (B, C, L)."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first = Convolution(inputs=filters, filters=filters, size=3)
        self.second = Convolution(inputs=filters, filters=filters, size=3)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """One block on `x` (B, C, L)."""
        return x + convolved(convolved(x.relu(), valid, self.first).relu(), valid, self.second)


class DpcnnEncoder(Encoder):
    """Region embedding of 3 tokens, then levels, each on half as many positions as the one before.

    A text of n tokens ends with ⌈n / 2^(levels − 1)⌉ positions, whatever its batch.
    """

    keeps_tokens = False

    def __init__(self, config: DpcnnConfig, context: Context) -> None:
        super().__init__()
        self.config, self.width = config, config.filters
        self.embedding = TokenEmbedding(context, width=config.embedding, dropout=config.dropout)
        self.region = Convolution(inputs=config.embedding, filters=config.filters, size=3)
        self.levels = nn.ModuleList(PyramidBlock(config.filters) for _ in range(config.levels))
        self.blocks = nn.ModuleList()  # levels differ in length, so none can be cut by depth control

    def forward(self, tokens: Tokens) -> Encoded:
        """The last level's states (B, ⌈L / 2^(levels − 1)⌉, D), with the tokens that they are centred on."""
        ids, valid = tokens.ids, tokens.valid
        x = convolved(self.embedding(tokens).transpose(1, 2), valid, self.region)  # (B, D, L)
        for level, block in enumerate(self.levels):
            if level:
                x, valid = halved(x, valid)
                ids = ids[:, ::2]
            x = block(x, valid)
        return Encoded((x.transpose(1, 2),), Tokens(ids, valid))
