"""Linear head: pooling over tokens, one linear layer, cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast

import torch
from torch import Tensor, nn

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Unless
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.pooling import AttentionPool, masked_max, masked_mean
from epigram.nn.layers.types import DataSpec, Encoded, Prediction

# a pool other than attention has no weights
ONE_STATE = Unless(
    "encoder.pooled", True, when=("pool", "mean", "max", "first"), because="the encoder has one state per text"
)


@heads.register("linear")
@dataclass(frozen=True, kw_only=True)
class LinearConfig(FusionConfig):
    """Settings of the head: `pool` combines tokens.

    The head reads the pooled states of the last `layers` layers side by side, or of all if the encoder has fewer.
    """

    pool: Annotated[Literal["mean", "max", "first", "attention"], ONE_STATE] = "mean"
    layers: Annotated[Positive, Unless("encoder.several_states", False, because="the encoder has one state")] = 1
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if layers are both read side by side and made into one state."""
        super().check(context, encoder)
        if self.layers > 1 and self.fusion != "last":
            raise ValueError(f"head.layers is {self.layers}, but head.fusion makes one state of all layers; remove one")
        if self.layers > 1 and self.pool == "attention":
            raise ValueError(f"head.layers is {self.layers}, but head.pool is 'attention', which reads the last layer")


class LinearHead(Head, settings=LinearConfig):
    """Pooling and a linear layer: states (B, L, D) → pooled (B, D) → logits (B, C)."""

    def __init__(self, config: LinearConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config, self.pool, self.width, self.states = config, config.pool, encoder.width, encoder.state_count
        self.layers = min(config.layers, self.states)
        self.attention = AttentionPool(width=encoder.width) if config.pool == "attention" else None
        self.dropout = Dropout(config.dropout)
        self.out = OutputLinear(encoder.width * self.layers, context.classes, context.label_shares)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss."""
        logits = self.out(self.dropout(self.text_states(encoded)))
        return Prediction(logits, None if labels is None else self.text_loss(logits, labels))

    def text_states(self, encoded: Encoded) -> Tensor:
        """Return one state per text, which the linear layer reads: (B, D), or with K `layers` (B, K·D)."""
        valid = encoded.tokens.valid
        if self.layers == 1:
            return self.pooled(self.config.fuse_layers(encoded), valid)
        return torch.cat([self.pooled(states, valid) for states in encoded.states[-self.layers :]], 1)

    def pooled(self, states: Tensor, valid: Tensor) -> Tensor:
        """Pool the `states` (B, L, D) of the `valid` tokens (B, L) to one vector per text (B, D)."""
        if self.attention is not None:
            return cast(Tensor, self.attention(states, valid))
        if self.pool == "first":
            return states[:, 0]
        return masked_mean(states, valid) if self.pool == "mean" else masked_max(states, valid)

    def drop(self, layer: int) -> None:
        """Note that the encoder has a layer less; if fewer are left than the head reads, forget the first of these."""
        self.states -= 1
        if self.states >= self.layers:
            return
        self.layers -= 1
        self.out.in_features -= self.width
        self.out.weight = nn.Parameter(self.out.weight.detach()[:, self.width :].clone())
