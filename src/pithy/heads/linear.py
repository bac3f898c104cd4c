"""The plain head: pool the tokens, one linear layer, cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast

from torch import Tensor, nn

from pithy.layers.dropout import Dropout
from pithy.layers.encoder import Encoder
from pithy.layers.hook_fusion import fuse
from pithy.layers.masking import masked_max, masked_mean
from pithy.layers.objective import classification_loss
from pithy.layers.pooling import AttentionPool
from pithy.layers.types import Context, Encoded, Prediction
from pithy.values import Range, Strict

Fusion = Literal["last", "hook"]


def fused(encoded: Encoded, fusion: Fusion) -> Tensor:
    """The last layer's states, or the hook fusion of all layers (Transformer-F, Eq. 7): (B, L, D)."""
    return encoded.last if fusion == "last" else fuse(encoded.states)


def check_fusion(fusion: Fusion, encoder: Encoder) -> None:
    """Raises ValueError where there are no layers to fuse."""
    if fusion == "hook" and encoder.depth == 0:
        raise ValueError(
            "head.fusion was 'hook': this encoder has no layers to fuse; set it to last, or take an encoder that has "
            "layers, such as transformer"
        )


@dataclass(frozen=True, kw_only=True)
class LinearConfig(Strict):
    """How tokens and layers come together."""

    pool: Literal["mean", "max", "first", "attention"] = "mean"
    fusion: Fusion = "last"
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2

    def build(self, context: Context, encoder: Encoder) -> LinearHead:
        """The head for the data's classes on `encoder`."""
        check_fusion(self.fusion, encoder)
        return LinearHead(self, context, encoder.width)


class LinearHead(nn.Module):
    """Pooled states (B, D) → logits (B, C)."""

    def __init__(self, config: LinearConfig, context: Context, width: int) -> None:
        super().__init__()
        self.config, self.pool, self.fusion = config, config.pool, config.fusion
        self.attention = AttentionPool(width=width) if config.pool == "attention" else None
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(width, context.classes)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Logits (B, C), and the mean loss where `labels`, (B,) or (B, C), are given."""
        pooled = self.pooled(fused(encoded, self.fusion), encoded.tokens.valid)
        logits = self.out(self.dropout(pooled))
        return Prediction(logits, None if labels is None else classification_loss(logits, labels))

    def pooled(self, states: Tensor, valid: Tensor) -> Tensor:
        """One vector a text (B, D) of its `valid` tokens' `states` (B, L, D)."""
        if self.attention is not None:
            return cast(Tensor, self.attention(states, valid))
        if self.pool == "first":
            return states[:, 0]
        return masked_mean(states, valid) if self.pool == "mean" else masked_max(states, valid)
