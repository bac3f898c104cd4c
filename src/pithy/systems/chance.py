"""Answers drawn by the classes' frequencies: what any system has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from pithy.layers.hashing import mix
from pithy.layers.objective import classification_loss
from pithy.layers.types import Context, Prediction, Tokens
from pithy.values import Strict


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
    Where the data have token labels, each token's is a draw in which all are as likely.
    """

    depth = 0

    def __init__(self, config: ChanceConfig, context: Context) -> None:
        super().__init__()
        self.config, self.classes, self.multi = config, context.classes, context.multi
        self.token_classes = len(context.token_labels)
        self.register_buffer("frequency", torch.full((context.classes,), 1 / context.classes))
        self.register_buffer("seed", torch.tensor(0))
        self.frequency: Tensor
        self.seed: Tensor

    def install(self, frequency: Tensor, seed: int) -> None:
        """Take the share (C,) of the training texts that have each label."""
        self.frequency, self.seed = frequency.to(self.frequency), self.seed.new_tensor(seed)

    def draws(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Uniform numbers in (0, 1), float64: by seed, text and class (B, C), and by place too (B, L, S)."""
        place = mix(torch.arange(tokens.ids.shape[1], device=tokens.ids.device))
        text = (mix(tokens.ids + place) * tokens.valid).sum(1)  # (B,), whatever the padding
        each = mix(text.unsqueeze(1) + place)  # (B, L)
        return self._uniform(text, self.classes), self._uniform(each, self.token_classes)

    def _uniform(self, keys: Tensor, count: int) -> Tensor:
        """`count` numbers for each of `keys`, (…, `count`)."""
        # a number of its own for each seed and class
        streams = self.seed * count + torch.arange(count, device=keys.device)
        bits = mix(keys.unsqueeze(-1) + mix(streams)) & (2**52 - 1)
        return (bits.double() + 0.5) / 2**52

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Noisy logits (B, C), and (B, L, S) of the tokens, with the texts' loss where `labels` are given."""
        (u, each), p = self.draws(tokens), self.frequency.double().clamp(1e-9, 1 - 1e-9)
        noisy = p.logit() + u.logit() if self.multi else p.log() + gumbel(u)
        logits, loss = noisy.float(), None
        if labels is not None:
            loss = classification_loss(logits, labels)
        return Prediction(logits, loss, tokens=gumbel(each).float() if self.token_classes else None)


def gumbel(u: Tensor) -> Tensor:
    """Gumbel noise of uniform numbers: the largest of p.log() + noise is a draw by p."""
    return -(-u.log()).log()
