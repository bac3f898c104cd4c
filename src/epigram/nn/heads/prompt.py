"""Head that reads the two masks of a prompt (prompt text augmentation, PTA, Eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from epigram.core.config_types import Range, Share
from epigram.nn import heads
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.soft_prompt import SoftPrompt
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens


@heads.register("prompt")
@dataclass(frozen=True, kw_only=True)
class PromptConfig(FusionConfig):
    """Settings of the head.

    `gamma` is γ, the weight of "the label is [MASK]" against "the label is not [MASK]". `soft` trains the vectors of
    the template.
    """

    gamma: Share = 0.5
    soft: bool = False
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.1

    def build(self, context: DataSpec, encoder: Encoder) -> PromptHead:
        """Build the head for the data's classes on `encoder`.

        Raises ValueError if texts have several labels, the view has no prompt with masks, the encoder does not keep one
        state per token, the states of the masks do not depend on the text, or there are no layers to fuse.
        """
        if context.multi:
            raise ValueError(
                "head: prompt predicts one label per text, and the texts have several; use another head, for example "
                "linear"
            )
        if context.mask_id is None:
            raise ValueError(
                "head: prompt needs a view with prompt: true and a tokenizer with a mask token; use such a view, or "
                "head linear"
            )
        if not encoder.keeps_tokens:
            raise ValueError(
                "head: prompt needs an encoder with one state per token, and this one has fewer; "
                "use another encoder, or head linear"
            )
        self.check_fusion(encoder)
        check_reach(context, encoder)
        return PromptHead(self, context, encoder)


def check_reach(context: DataSpec, encoder: Encoder) -> None:
    """Raise ValueError if the state of no mask depends on the text, so that the head would ignore the text."""
    prefix = context.prefix_ids
    distance = prefix[::-1].index(context.mask_id) + 1 if context.mask_id in prefix else 1  # from the last mask
    if encoder.reach is not None and encoder.reach < distance:
        raise ValueError(
            "head: prompt reads the states of the masks, which do not depend on the text with this encoder: a state "
            f"depends on at most {encoder.reach} tokens to its right, and the text begins {distance} to the right of "
            "the last mask; use another encoder, for example transformer, or head linear"
        )


class PromptHead(Head):
    """Two linear layers on the states (B, D) of the two masks: "the label is" and "the label is not"."""

    part_names = ("the label is", "the label is not")

    def __init__(self, config: PromptConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        assert context.mask_id is not None
        self.config, self.gamma = config, config.gamma
        self.mask_id = context.mask_id
        self.dropout = Dropout(config.dropout)
        self.label = nn.Linear(encoder.width, context.classes)
        self.complement = nn.Linear(encoder.width, context.classes)
        self.prompt = SoftPrompt(context.prefix_ids, context.mask_id, encoder.token_table) if config.soft else None

    def prepare(self, tokens: Tokens, encoder: Encoder) -> Tokens:
        """Return `tokens` with the trained vectors of the prompt if it is soft, otherwise `tokens` itself."""
        return tokens if self.prompt is None else self.prompt(tokens, encoder.token_table)

    def masks(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """Return the states of the first two mask tokens of each row, (B, D) each."""
        ids = encoded.tokens.ids
        # the prompt precedes the text, so the two leftmost masks are the prompt's
        rank = (ids == self.mask_id).long() * torch.arange(ids.shape[1], 0, -1, device=ids.device)
        positions = rank.topk(2, dim=1).indices
        states = self.config.fuse_layers(encoded)
        both = states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (B, 2, D)
        return both[:, 0], both[:, 1]

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits γ log p₁ + (1−γ) log(1 − p₂) (B, C) and, if `labels` (B,) are given, the mean loss.

        The loss is γ·CE₁ + (1−γ)·(−log(1 − p₂(y))): Eq. 8, generalized to any number of classes.
        """
        first, second = self.masks(encoded)
        label = self.label(self.dropout(first)).float()  # (B, C)
        complement = self.complement(self.dropout(second)).float()
        # log(1 − p₂(c)) = log Σ_{k≠c} p₂(k)
        classes = label.shape[1]
        others = complement.unsqueeze(1).masked_fill(
            torch.eye(classes, dtype=torch.bool, device=label.device), float("-inf")
        )
        log_not = others.logsumexp(-1) - complement.logsumexp(-1, keepdim=True)  # (B, C)
        logits = self.gamma * label.log_softmax(-1) + (1 - self.gamma) * log_not
        loss = None
        if labels is not None:
            loss_not = -log_not.gather(1, labels.unsqueeze(1)).mean()
            loss = self.gamma * cross_entropy(label, labels) + (1 - self.gamma) * loss_not  # Eq. 8
        return Prediction(logits, loss, torch.stack([label.log_softmax(-1), log_not]))
