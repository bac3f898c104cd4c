"""Label-embedding attention head (LEAM, Wang et al., 2018): tokens are weighted by similarity to the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from epigram.core.config_types import Count, Positive, Range
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("label_attention")
@dataclass(frozen=True, kw_only=True)
class LabelAttentionConfig(FusionConfig):
    """Settings of the head.

    A phrase is a token with `radius` neighbours on each side. `hidden` is the width of f₂'s hidden layer, `anchor` the
    weight of the label vectors' own classification loss (Eq. 10).
    """

    radius: Count = 5
    hidden: Positive = 300
    anchor: Annotated[float, Range(ge=0.0)] = 1.0
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.5


class LabelAttentionHead(Head, settings=LabelAttentionConfig):
    """Head that classifies the weighted mean of the token states, z = Σ_l β_l v_l, by a two-layer perceptron f₂.

    The weights β come from the cosine similarities of tokens and label vectors. The loss also asks f₂ to classify each
    label vector as its own label (the anchors of Eq. 10).
    """

    def __init__(self, config: LabelAttentionConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config, self.multi = config, context.multi
        self.labels = nn.Parameter(nn.init.normal_(torch.empty(context.classes, encoder.width), std=0.1))  # C
        self.window = nn.Parameter(torch.full((2 * config.radius + 1,), 1.0))  # W₁
        self.bias = nn.Parameter(torch.zeros(context.classes))  # b₁
        self.classify = nn.Sequential(
            Dropout(config.dropout),
            nn.Linear(encoder.width, config.hidden),
            nn.ReLU(),
            OutputLinear(config.hidden, context.classes, context.label_shares),
        )

    def attention(self, states: Tensor, valid: Tensor) -> Tensor:
        """Return β (B, L) over the valid tokens of `states` (B, L, D)."""
        g = normalize(states, dim=-1) @ normalize(self.labels, dim=-1).T  # (B, L, C), Eq. 4
        g = g.masked_fill(~valid.unsqueeze(-1), 0.0).transpose(1, 2)
        rows = g @ self.phrases(g.shape[2]).to(g.dtype)  # a convolution of so many rows is slower
        u = (rows + self.bias.unsqueeze(1)).relu()  # (B, C, L), Eq. 5
        return u.amax(1).float().masked_fill(~valid, float("-inf")).softmax(-1)  # Eq. 6, 7

    def phrases(self, length: int) -> Tensor:
        """Return the matrix (L, L) whose column l has W₁ in the rows l − radius to l + radius, and 0 elsewhere."""
        around = length - 1 - self.config.radius  # cuts W₁ if a text is shorter than a phrase
        position = torch.arange(length, device=self.window.device)
        return pad(self.window, (around, around))[position.unsqueeze(1) - position + length - 1]

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss of texts and anchors."""
        states = self.config.fuse_layers(encoded)
        beta = self.attention(states, encoded.tokens.valid).to(states.dtype)
        logits = self.classify(torch.bmm(beta.unsqueeze(1), states).squeeze(1))  # f₂(z), Eq. 8
        if labels is None:
            return Prediction(logits)
        indices = torch.arange(len(self.labels), device=logits.device)
        targets = torch.eye(len(indices), device=logits.device) if self.multi else indices
        anchors = classification_loss(self.classify(self.labels), targets)
        return Prediction(logits, self.text_loss(logits, labels) + self.config.anchor * anchors)  # Eq. 9, 10
