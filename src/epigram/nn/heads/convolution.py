"""Head with TextCNN's convolutions over the states of any encoder (BERT-CNN)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from torch import Tensor

from epigram.core.config_types import Positive, Range
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.convolution import Convolutions, Sizes
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.pooling import masked_max
from epigram.nn.layers.types import DataSpec, Encoded, Prediction


@heads.register("convolution")
@dataclass(frozen=True, kw_only=True)
class ConvolutionHeadConfig(FusionConfig):
    """Settings of the head: filters per window size, and window sizes in tokens."""

    filters: Positive = 256
    sizes: Sizes = field(default_factory=lambda: [2, 3, 4])
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2


class ConvolutionHead(Head, settings=ConvolutionHeadConfig):
    """Convolutions of the states, maximum over the text, one linear layer: (B, L, D) → (B, C)."""

    def __init__(self, config: ConvolutionHeadConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.convolutions = Convolutions(inputs=encoder.width, filters=config.filters, sizes=config.sizes)
        self.dropout = Dropout(config.dropout)
        self.out = OutputLinear(config.filters * len(config.sizes), context.classes, context.label_shares)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss."""
        states, valid = self.config.fuse_layers(encoded), encoded.tokens.valid
        features = self.convolutions(states * valid.unsqueeze(-1).to(states.dtype))
        logits = self.out(self.dropout(masked_max(features, valid)))
        return Prediction(logits, None if labels is None else self.text_loss(logits, labels))
