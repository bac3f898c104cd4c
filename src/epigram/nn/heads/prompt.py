"""Head that reads the masks of a prompt (prompt text augmentation, PTA, Eq. 8), and its trainable template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from epigram.core.config_types import Range, Share
from epigram.nn import heads
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens


def log_complement(logits: Tensor) -> Tensor:
    """Return log(1 − p) (B, C), where p is the softmax of `logits` (B, C) over at least two classes.

    Where p is at most one half, 1 − p keeps all its digits. Only the most probable class can have more, so its value is
    the logarithm of the sum of all other classes. This takes O(B·C) memory.
    """
    best = logits.argmax(-1, keepdim=True)
    is_best = torch.arange(logits.shape[1], device=logits.device) == best  # (B, C)
    of_best = logits.masked_fill(is_best, float("-inf")).logsumexp(-1, keepdim=True)
    of_best = of_best - logits.logsumexp(-1, keepdim=True)  # (B, 1)
    p = logits.softmax(-1).masked_fill(is_best, 0.0)  # log1p has no finite derivative where p is 1
    return torch.where(is_best, of_best, torch.log1p(-p))


class SoftPrompt(nn.Module):
    """Trainable vectors of the P prompt words, initialized from the embeddings of these words.

    Mask tokens and the words of the text keep their embeddings. `prefix` are the ids before every text, `mask_id` the
    id of a mask token and `table` the encoder's embedding table (V, E).
    """

    def __init__(self, prefix: Sequence[int], mask_id: int, table: nn.Embedding) -> None:
        super().__init__()
        positions = [position for position, token in enumerate(prefix) if token != mask_id]
        self.register_buffer("positions", torch.tensor(positions, dtype=torch.int64), persistent=False)  # (P,)
        self.positions: Tensor
        words = torch.tensor(prefix, dtype=torch.int64)[self.positions]
        self.vectors = nn.Parameter(table.weight.detach()[words].clone())  # (P, E)

    def forward(self, tokens: Tokens, table: nn.Embedding) -> Tokens:
        """Return `tokens` (B, L) with `vectors` (B, L, E): their embeddings, or trainable vectors for prompt words."""
        words: Tensor = table(tokens.ids)
        prompt = self.vectors.to(words.dtype).expand(len(words), -1, -1)
        return replace(tokens, vectors=words.index_copy(1, self.positions, prompt))


@heads.register("prompt")
@dataclass(frozen=True, kw_only=True)
class PromptConfig(FusionConfig):
    """Settings of the head.

    `gamma` is γ, the weight of "the label is [MASK]" against "the label is not [MASK]"; by default 0.5, or 1 if the
    prompt has one mask. `soft` trains the vectors of the words before the text.
    """

    one_label: ClassVar[bool] = True
    needs_tokens: ClassVar[bool] = True

    gamma: Share | None = None
    soft: bool = False
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.1

    def weight_of_label(self, context: DataSpec) -> float:
        """Return γ: the setting, or by default 0.5, or 1 if the prompt has one mask."""
        usual = 0.5 if context.prompt_masks > 1 else 1.0
        return usual if self.gamma is None else self.gamma

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if the view has no prompt with masks that the settings and the encoder fit."""
        super().check(context, encoder)
        if not context.prompt_masks:
            raise ValueError(
                "head: prompt needs a view with prompt: true and a tokenizer with a mask token; use such a view, or "
                "head linear"
            )
        if not encoder.reads_whole_text:
            raise ValueError(
                "head: prompt reads the states of the masks, which depend on few tokens of the text with "
                f"{encoder.kind}; use another encoder, for example transformer, or head linear"
            )
        if self.soft and (context.mask_id in context.suffix_ids or set(context.prefix_ids) <= {context.mask_id}):
            raise ValueError(
                "head.soft trains the words before the text, but the prompt has its words or masks elsewhere; remove "
                "soft, or put the text at the end of augment.template.text"
            )
        gamma = self.weight_of_label(context)
        if context.prompt_masks == 1 and gamma != 1.0:
            raise ValueError(
                f"head.gamma is {gamma}, which weighs two masks, but the prompt has one; remove gamma, or the preset "
                "that sets it, or use a template with two masks"
            )


class PromptHead(Head, settings=PromptConfig):
    """Two linear layers on the states (B, D) of the two masks: "the label is" and "the label is not".

    If the prompt has one mask, only the first layer exists.
    """

    def __init__(self, config: PromptConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        assert context.mask_id is not None
        self.gamma = config.weight_of_label(context)
        self.config = replace(config, gamma=self.gamma)
        self.mask_id = context.mask_id
        self.dropout = Dropout(config.dropout)
        self.label = OutputLinear(encoder.width, context.classes)
        self.complement: OutputLinear | None = None
        if context.prompt_masks > 1:
            self.complement = OutputLinear(encoder.width, context.classes)
            self.part_names = ("the label is", "the label is not")
        self.prompt = SoftPrompt(context.prefix_ids, context.mask_id, encoder.token_table) if config.soft else None

    def prepare(self, tokens: Tokens, encoder: Encoder) -> Tokens:
        """Return `tokens` with the trained vectors of the prompt if it is soft, otherwise `tokens` itself."""
        return tokens if self.prompt is None else self.prompt(tokens, encoder.token_table)

    def masks(self, encoded: Encoded) -> tuple[Tensor, ...]:
        """Return the states of the first mask token of each row, or of the first two, (B, D) each."""
        ids = encoded.tokens.ids
        # a text contains no mask token, unless it is given as ids; then the prompt before it has the leftmost masks
        rank = (ids == self.mask_id).long() * torch.arange(ids.shape[1], 0, -1, device=ids.device)
        positions = rank.topk(1 if self.complement is None else 2, dim=1).indices
        states = self.config.fuse_layers(encoded)
        masks: tuple[Tensor, ...] = states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])).unbind(1)
        return masks

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits γ log p₁ + (1−γ) log(1 − p₂) (B, C) and, if `labels` (B,) are given, the mean loss.

        The loss is γ·CE₁ + (1−γ)·(−log(1 − p₂(y))): Eq. 8, generalized to any number of classes. With one mask, its
        layer gives logits and loss, as with γ = 1. Class weights apply to both terms, label smoothing and the focal
        loss to CE₁.
        """
        masks = self.masks(encoded)
        label = self.label(self.dropout(masks[0])).float()  # (B, C)
        if self.complement is None:
            return Prediction(label, None if labels is None else self.text_loss(label, labels))
        complement = self.complement(self.dropout(masks[1])).float()
        log_not = log_complement(complement)  # log(1 − p₂(c)) (B, C)
        logits = self.gamma * label.log_softmax(-1) + (1 - self.gamma) * log_not
        loss = None
        if labels is not None:
            weight = self.loss_options.weight_of(labels)
            loss_not = -(log_not.gather(1, labels.unsqueeze(1)).squeeze(1) * weight).mean()
            loss = self.gamma * self.text_loss(label, labels) + (1 - self.gamma) * loss_not  # Eq. 8
        return Prediction(logits, loss, torch.stack([label.log_softmax(-1), log_not]))
