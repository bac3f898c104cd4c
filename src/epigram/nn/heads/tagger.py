"""Head with a linear layer for token labels in addition to the linear head for the text label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from epigram.nn import heads
from epigram.nn.heads.attention_labeler import token_loss
from epigram.nn.heads.linear import LinearConfig, LinearHead
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("tagger")
@dataclass(frozen=True, kw_only=True)
class TaggerConfig(LinearConfig):
    """Settings of the linear head; `fusion` and `dropout` also apply to the token labels."""

    needs_tokens: ClassVar[bool] = True
    labels_tokens: ClassVar[bool] = True

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if the data have no token labels, or if the head is to read several layers."""
        if not context.token_labels:
            raise ValueError("head: tagger predicts token labels, but the data have none; use head linear")
        super().check(context, encoder)
        if self.layers > 1:
            raise ValueError(f"head.layers is {self.layers}, but head tagger reads one state per token; remove it")


class TaggerHead(LinearHead, settings=TaggerConfig):
    """Linear head plus token labels: pooled states (B, D) → logits (B, C), token states (B, L, D) → logits (B, L, S).

    The loss is the mean loss per text plus the mean loss per labelled token.
    """

    def __init__(self, config: TaggerConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__(config, context, encoder)
        self.token = OutputLinear(encoder.width, len(context.token_labels))

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits of texts and tokens and, if `labels` (B,) or (B, C) are given, the loss."""
        states, tokens = self.config.fuse_layers(encoded), encoded.tokens
        logits = self.out(self.dropout(self.pooled(states, tokens.valid)))
        token_logits = self.token(self.dropout(states)).float()
        if labels is None:
            return Prediction(logits, tokens=token_logits)
        count = 1 if tokens.labels is None else (tokens.labels >= 0).sum().clamp(min=1)
        return Prediction(
            logits, self.text_loss(logits, labels) + token_loss(token_logits, tokens) / count, tokens=token_logits
        )
