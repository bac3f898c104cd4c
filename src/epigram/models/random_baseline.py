"""Random baseline: predictions drawn by the class frequencies of the training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from epigram.core.config_types import Strict
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.ngrams import mix
from epigram.nn.layers.types import DataSpec, Prediction, Tokens


@dataclass(frozen=True, kw_only=True)
class RandomBaselineConfig(Strict):
    """Configuration of the random baseline.

    `draw`: each label with its share of the training texts as the probability, or all labels with the same probability.
    """

    kind: ClassVar[str] = "random_baseline"
    by_gradient: ClassVar[bool] = False
    train_settings: ClassVar[tuple[str, ...]] = ("max_length",)  # settings with an effect
    labels_tokens: ClassVar[bool] = True

    draw: Literal["frequency", "uniform"] = "frequency"

    def check(self, context: DataSpec) -> None:
        """Accept any data."""

    def build(self, context: DataSpec) -> RandomBaseline:
        """Return the model before its frequencies are set."""
        return RandomBaseline(self, context)


class RandomBaseline(nn.Module):
    """Random baseline: the logits are the log frequency of each class plus Gumbel noise.

    Each class is therefore predicted with its frequency as the probability. With several labels per text, the logits
    are the log odds of each label plus logistic noise, so each label is predicted independently, with its frequency as
    the probability. With `draw: uniform`, all frequencies are equal. The noise is a hash of the seed and the text: a
    text gets the same prediction in every batch, and another seed gives other predictions. If the data have token
    labels, each token's label is drawn with equal probability for all labels.
    """

    depth = 0

    def __init__(self, config: RandomBaselineConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.classes, self.multi = config, context.classes, context.multi
        self.token_classes = len(context.token_labels)
        self.register_buffer("frequency", torch.full((context.classes,), 0.5 if self.multi else 1 / context.classes))
        self.register_buffer("seed", torch.tensor(0))
        self.frequency: Tensor
        self.seed: Tensor

    def install(self, frequency: Tensor, seed: int) -> None:
        """Set the share (C,) of the training texts that have each label, unless it is uniform, and the seed."""
        if self.config.draw == "frequency":
            self.frequency = frequency.to(self.frequency)
        self.seed = self.seed.new_tensor(seed)

    def draws(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Return uniform float64 numbers in (0, 1): for the classes (B, C) and for the token labels (B, L, S)."""
        position = mix(torch.arange(tokens.ids.shape[1], device=tokens.ids.device))
        text = (mix(tokens.ids + position) * tokens.valid).sum(1)  # (B,), independent of the padding
        each = mix(text.unsqueeze(1) + position)  # (B, L)
        return self._uniform(text, self.classes), self._uniform(each, self.token_classes)

    def _uniform(self, keys: Tensor, count: int) -> Tensor:
        """Return `count` uniform numbers for each key, (..., `count`)."""
        # one number per seed and class
        streams = self.seed * count + torch.arange(count, device=keys.device)
        bits = mix(keys.unsqueeze(-1) + mix(streams)) & (2**52 - 1)
        return (bits.double() + 0.5) / 2**52

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Return noisy logits (B, C) and token logits (B, L, S), and the loss of the texts if `labels` are given."""
        (u, each), p = self.draws(tokens), self.frequency.double().clamp(1e-9, 1 - 1e-9)
        noisy = p.logit() + u.logit() if self.multi else p.log() + gumbel(u)
        logits, loss = noisy.float(), None
        if labels is not None:
            loss = classification_loss(logits, labels)
        return Prediction(logits, loss, tokens=gumbel(each).float() if self.token_classes else None)


def gumbel(u: Tensor) -> Tensor:
    """Return Gumbel noise from uniform numbers `u`; the arg max of p.log() + noise is a draw from p."""
    return -(-u.log()).log()
