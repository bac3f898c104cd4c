"""Linear head: pooling over tokens, one linear layer, cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast

from torch import Tensor, nn

from epigram.core.config_types import Range
from epigram.nn import heads
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.masking import masked_max, masked_mean
from epigram.nn.layers.pooling import AttentionPool
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("linear")
@dataclass(frozen=True, kw_only=True)
class LinearConfig(FusionConfig):
    """Settings of the head: `pool` combines tokens."""

    pool: Literal["mean", "max", "first", "attention"] = "mean"
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2

    def build(self, context: DataSpec, encoder: Encoder) -> LinearHead:
        """Build the head for the data's classes on `encoder`. Raises ValueError if there are no layers to fuse."""
        self.check_fusion(encoder)
        return LinearHead(self, context, encoder.width)

    def unused(self, context: DataSpec, encoder: Encoder) -> dict[str, str]:
        """Return the settings without effect, each with the reason."""
        found = super().unused(context, encoder)
        if encoder.pooled and self.pool != "attention":
            found["pool"] = "the encoder has one state per text"
        return found


class LinearHead(Head):
    """Pooling and a linear layer: states (B, L, D) → pooled (B, D) → logits (B, C)."""

    def __init__(self, config: LinearConfig, context: DataSpec, width: int) -> None:
        super().__init__()
        self.config, self.pool = config, config.pool
        self.attention = AttentionPool(width=width) if config.pool == "attention" else None
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(width, context.classes)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss."""
        logits = self.out(self.dropout(self.text_states(encoded)))
        return Prediction(logits, None if labels is None else self.text_loss(logits, labels))

    def text_states(self, encoded: Encoded) -> Tensor:
        """Return one state per text (B, D), which the linear layer reads."""
        return self.pooled(self.config.fuse_layers(encoded), encoded.tokens.valid)

    def pooled(self, states: Tensor, valid: Tensor) -> Tensor:
        """Pool the `states` (B, L, D) of the `valid` tokens (B, L) to one vector per text (B, D)."""
        if self.attention is not None:
            return cast(Tensor, self.attention(states, valid))
        if self.pool == "first":
            return states[:, 0]
        return masked_mean(states, valid) if self.pool == "mean" else masked_max(states, valid)
