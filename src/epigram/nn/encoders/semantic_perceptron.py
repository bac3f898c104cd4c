"""Multi-layer semantic perceptron (DMSP): embeddings and a stack of semantic perceptrons, without attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

from epigram.core.config_types import Positive, Range, Strict
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.pos_weighting import VectorWeight
from epigram.nn.layers.semantic_perceptron import Order, SemanticPerceptron
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("semantic_perceptron")
@dataclass(frozen=True, kw_only=True)
class SemanticPerceptronConfig(Strict):
    """Settings of the encoder.

    The default sizes reproduce the paper's parameter counts: width 64, perceptron 64→512→64, five layers.
    """

    width: Positive = 64
    hidden: Positive = 512
    depth: Positive = 5
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3
    order: Order = "random"
    average: Positive = 1  # number of random orders averaged at inference
    pos_weight: VectorWeight = "none"  # embedding: token vectors are multiplied by their part-of-speech weights

    def build(self, context: DataSpec) -> SemanticPerceptronEncoder:
        """Build the encoder for the data's vocabulary."""
        return SemanticPerceptronEncoder(self, context)

    def unused(self, context: DataSpec) -> dict[str, str]:
        """Return the settings without effect, each with the reason."""
        return {} if self.order == "random" else {"average": f"encoder.order is {self.order!r}"}


class SemanticPerceptronEncoder(Encoder):
    """Embeddings x⁰ without positions, then N semantic perceptrons."""

    def __init__(self, config: SemanticPerceptronConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.reach = (0, 0) if config.order == "none" else None
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
