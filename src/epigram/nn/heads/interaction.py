"""Head with word-level interaction between tokens and classes (EXAM, Du et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn
from torch.nn.functional import linear

from epigram.core.config_types import Range
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("interaction")
@dataclass(frozen=True, kw_only=True)
class InteractionConfig(FusionConfig):
    """Settings of the head; `hidden` is the number of units of the aggregation, by default 2 · `max_length`."""

    hidden: Annotated[int | None, Range(ge=1)] = None
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2


class InteractionHead(Head, settings=InteractionConfig):
    """Interaction I = T Hᵀ of each class with each token, then one perceptron over positions, shared by all classes.

    The perceptron reads n = `max_length` positions. A position without a token is 0, so the columns of W₁ beyond the
    batch's length are not needed, and padding does not affect the result.
    """

    def __init__(self, config: InteractionConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout(config.dropout)
        self.classes = nn.Linear(encoder.width, context.classes, bias=False)  # T
        self.first = nn.Linear(context.max_length, config.hidden or 2 * context.max_length)
        shares = context.label_shares
        self.second = OutputLinear(self.first.out_features, 1, None if shares is None else shares.mean(0, keepdim=True))

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss."""
        valid = encoded.tokens.valid
        matched = self.classes(self.dropout(self.config.fuse_layers(encoded)))  # (B, L, C), Eq. 6
        matched = matched.masked_fill(~valid.unsqueeze(-1), 0.0).transpose(1, 2)
        hidden = linear(matched, self.first.weight[:, : matched.shape[-1]], self.first.bias).relu()
        # Eq. 7; the sum over positions is not in the paper but in the authors' code
        scores = self.second(hidden).squeeze(-1)
        logits = scores + matched.sum(-1, dtype=scores.dtype)
        return Prediction(logits, None if labels is None else self.text_loss(logits, labels))
