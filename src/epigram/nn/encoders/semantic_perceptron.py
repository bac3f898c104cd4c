"""Multi-layer semantic perceptron (DMSP): embeddings and a stack of semantic perceptrons, without attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor, nn

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Only
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.semantic_perceptron import Order, SemanticPerceptron
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("semantic_perceptron")
@dataclass(frozen=True, kw_only=True)
class SemanticPerceptronConfig(WeightedEncoderSettings):
    """Settings of the encoder.

    The default sizes reproduce the paper's parameter counts: width 64, perceptron 64→512→64, five layers.
    """

    has_layers: ClassVar[bool] = True

    width: Positive = 64
    hidden: Positive = 512
    depth: Positive = 5
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3
    order: Order = "random"
    average: Annotated[Positive, Only("order", "random")] = 1  # number of random orders averaged at inference

    @property
    def reach(self) -> tuple[int, int] | None:
        """Without an order, a state depends on its own token only."""
        return (0, 0) if self.order == "none" else None


class SemanticPerceptronEncoder(Encoder, settings=SemanticPerceptronConfig):
    """Embeddings x⁰ without positions, then N semantic perceptrons."""

    def __init__(self, config: SemanticPerceptronConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.average = config.average if config.order == "random" else 1
        self.embedding = TokenEmbedding(
            context, width=config.width, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.blocks = nn.ModuleList(
            SemanticPerceptron(width=config.width, hidden=config.hidden, dropout=config.dropout, order=config.order)
            for _ in range(config.depth)
        )

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of embeddings and layers, (B, L, D) each; at inference they are means over the draws."""
        draws = 1 if self.training else self.average
        runs = [self._run(tokens, draw) for draw in range(draws)]
        states = runs[0] if draws == 1 else [sum(layer[1:], layer[0]) / draws for layer in zip(*runs, strict=True)]
        return Encoded(tuple(states), tokens)

    def _run(self, tokens: Tokens, draw: int) -> list[Tensor]:
        x0 = self.embedding(tokens)
        states = [x0]
        for layer, block in enumerate(self.blocks, 1):
            states.append(block(states[-1], x0, tokens.valid, layer, draw))
        return states
