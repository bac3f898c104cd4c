"""Transformer encoder for training from scratch, with dot-product or correlation attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Only
from epigram.nn import encoders
from epigram.nn.layers.attention.attention_settings import AttentionSettings
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead, check_heads
from epigram.nn.layers.attention.pos_weighting import Placement, pos_table, token_weights
from epigram.nn.layers.autocast import LayerNorm
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.embedding import Positions, TokenEmbedding
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("transformer")
@dataclass(frozen=True, kw_only=True)
class TransformerConfig(AttentionSettings):
    """Sizes of the encoder and settings of its attention."""

    width: Positive = 128
    depth: Positive = 4
    heads: Annotated[Positive, Only("attention", "dot")] = 4
    hidden: Positive = 256
    activation: Literal["gelu", "relu"] = "gelu"
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2
    positions: Positions = "learned"
    embedding_norm: bool = True

    def check(self, context: DataSpec) -> None:
        """Raise ValueError also if the sizes conflict."""
        super().check(context)
        self.check_sizes("encoder")

    def check_sizes(self, where: str) -> None:
        """Raise ValueError if the sizes, whose key in params.yaml is `where`, conflict."""
        if self.width % self.heads and self.attention == "dot":
            raise ValueError(f"{where}.width {self.width} is not a multiple of {where}.heads {self.heads}")
        check_heads(self.head_to_head, self.heads)


class Block(nn.Module):
    """Post-LN layer: attention, then a two-layer perceptron, both with a residual: (B, L, D) → (B, L, D)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        placement: Placement = "after" if config.pos_weight == "none" else config.pos_weight
        self.attention: nn.Module
        if config.attention == "dot":
            head_to_head = None
            if config.head_to_head != "none":
                head_to_head = HeadToHead(
                    heads=config.heads, gate=config.head_to_head, site=config.site, dropout=config.dropout
                )
            self.attention = DotProductAttention(
                width=config.width,
                heads=config.heads,
                dropout=config.dropout,
                placement=placement,
                head_to_head=head_to_head,
            )
        else:
            self.attention = CorrelationAttention(
                width=config.width,
                dropout=config.dropout,
                row_norm=config.row_norm,
                temperature=config.temperature,
                learn_temperature=config.learn_temperature,
                placement=placement,
            )
        self.hidden = nn.Sequential(
            nn.Linear(config.width, config.hidden),
            nn.GELU() if config.activation == "gelu" else nn.ReLU(),
            nn.Linear(config.hidden, config.width),
        )
        self.norm_attention, self.norm_hidden = LayerNorm(config.width), LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None, full: bool | None = None) -> Tensor:
        """Apply the layer to `x` (B, L, D) with real tokens `valid` (B, L) and token weights `weight` (B, L).

        `full` says whether all tokens are real, if the host knows it.
        """
        x = self.norm_attention(x + self.dropout(self.attention(x, valid, weight, full)))
        out: Tensor = self.norm_hidden(x + self.dropout(self.hidden(x)))
        return out


class TransformerEncoder(Encoder, settings=TransformerConfig):
    """Embeddings and N post-LN blocks; each token has the part-of-speech weight of its word."""

    def __init__(self, config: TransformerConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.embedding = TokenEmbedding(
            context,
            width=config.width,
            positions=config.positions,
            dropout=config.dropout,
            norm=config.embedding_norm,
        )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.register_buffer("pos_weight", pos_table(config.pos_weight, context))
        self.pos_weight: Tensor | None

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of the embeddings and of every block, (B, L, D) each."""
        weight = token_weights(self.pos_weight, tokens)
        states = [self.embedding(tokens)]
        for block in self.blocks:
            states.append(block(states[-1], tokens.valid, weight, tokens.full))
        return Encoded(tuple(states), tokens)
