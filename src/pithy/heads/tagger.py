"""Token labels by one linear layer on every token, beside the plain head for the text's own label."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from pithy.heads.attention_labeler import token_loss
from pithy.heads.linear import LinearConfig, LinearHead, check_fusion, fused
from pithy.layers.encoder import Encoder
from pithy.layers.objective import classification_loss
from pithy.layers.types import Context, Encoded, Prediction


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(LinearConfig):
    """The plain head's settings, for texts and tokens alike."""

    def build(self, context: Context, encoder: Encoder) -> TaggerHead:
        """The head for the data's labels on `encoder`; refuses data without token labels."""
        if not context.token_labels:
            raise ValueError("head: tagger labels tokens, and the data have no token labels: take the head linear")
        if not encoder.keeps_tokens:
            raise ValueError("head: tagger labels every token, and this encoder keeps no state for each")
        check_fusion(self.fusion, encoder)
        return TaggerHead(self, context, encoder.width)


class TaggerHead(LinearHead):
    """Pooled states (B, D) → logits (B, C), and each token's state → logits (B, L, S); the loss is both means' sum."""

    def __init__(self, config: TaggerConfig, context: Context, width: int) -> None:
        super().__init__(config, context, width)
        self.token = nn.Linear(width, len(context.token_labels))

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Logits of texts and tokens, and the loss where `labels`, (B,) or (B, C), are given."""
        states, tokens = fused(encoded, self.fusion), encoded.tokens
        logits = self.out(self.dropout(self.pooled(states, tokens.valid)))
        each = self.token(self.dropout(states)).float()
        if labels is None:
            return Prediction(logits, tokens=each)
        count = 1 if tokens.labels is None else (tokens.labels >= 0).sum().clamp(min=1)
        return Prediction(logits, classification_loss(logits, labels) + token_loss(each, tokens) / count, tokens=each)
