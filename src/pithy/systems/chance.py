"""Answers drawn by the classes' frequencies: what any system has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from pithy.layers.hashing import mix
from pithy.layers.objective import classification_loss
from pithy.layers.types import Context, Prediction, Tokens
from pithy.settings import Strict


@dataclass(frozen=True, kw_only=True)
class ChanceConfig(Strict):
    """Nothing to set."""

    fitting: ClassVar[str] = "counting"

    def build(self, context: Context) -> Chance:
        """The model before it has counted."""
        return Chance(self, context)


class Chance(nn.Module):
    """The log frequency of each class plus Gumbel noise, so that the likeliest class is a draw by frequency.

    Where a text may have several labels, the log odds of each plus logistic noise: each is a draw by its frequency.
    The noise is a hash of seed and text: the same text gets the same answer in any batch, another seed another.
    """

    depth = 0

    def __init__(self, config: ChanceConfig, context: Context) -> None:
        super().__init__()
        self.config, self.classes, self.multi = config, context.classes, context.multi
        self.register_buffer("frequency", torch.full((context.classes,), 1 / context.classes))
        self.register_buffer("seed", torch.tensor(0))
        self.frequency: Tensor
        self.seed: Tensor

    def install(self, frequency: Tensor, seed: int) -> None:
        """Take the share (C,) of the training texts that have each label."""
        self.frequency, self.seed = frequency.to(self.frequency), self.seed.new_tensor(seed)

    def draws(self, tokens: Tokens) -> Tensor:
        """Uniform numbers in (0, 1) by seed, text and class: (B, C), float64."""
        place = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
        text = (mix(tokens.ids + mix(place)) * tokens.valid).sum(1)  # (B,), whatever the padding
        # a number of its own for each seed and class
        streams = self.seed * self.classes + torch.arange(self.classes, device=tokens.ids.device)
        bits = mix(text.unsqueeze(1) + mix(streams)) & (2**52 - 1)
        return (bits.double() + 0.5) / 2**52

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Noisy logits (B, C), with the loss where `labels` are given."""
        u, p = self.draws(tokens), self.frequency.double().clamp(1e-9, 1 - 1e-9)
        noisy = p.logit() + u.logit() if self.multi else p.log() - (-u.log()).log()
        logits = noisy.float()
        return Prediction(logits, None if labels is None else classification_loss(logits, labels))
