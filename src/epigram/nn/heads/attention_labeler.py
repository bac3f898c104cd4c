"""Multi-head attention labeler head (MHAL): text labels and token labels from the same attention scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Unless
from epigram.nn import heads
from epigram.nn.layers.attention.attention_labeler import (
    AttentionLabeler,
    DefaultTarget,
    attention_loss,
    max_per_class,
    query_similarity,
)
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens

Weight = Annotated[float, Range(ge=0.0)]
WITH_ATTENTION = Unless("attention_weight", 0.0)


@heads.register("attention_labeler")
@dataclass(frozen=True, kw_only=True)
class AttentionLabelerConfig(FusionConfig):
    """Settings of the head: the weights λ of the losses, and sizes.

    The weights are λ_sent, λ_tok, λ_attn and λ_Rq. `absolute` uses the absolute values of the cosines in R_q.
    `smoothing_over` says what K counts in ε/K: the text classes, or the token labels as in the paper.
    `default_target` is the target of the default label in Eq. 11: 1, or q'_d as printed. `dropout` is the dropout rate
    of the attention weights α; the paper's is 0.5. `hidden` is the width of z, `text_hidden` the width of W_s.
    """

    one_label: ClassVar[bool] = True
    needs_tokens: ClassVar[bool] = True
    labels_tokens: ClassVar[bool] = True

    sentence_weight: Weight = 1.0
    token_weight: Weight = 1.0
    attention_weight: Weight = 0.0
    query_weight: Weight = 0.0
    absolute: Annotated[bool, Unless("query_weight", 0.0)] = False
    smoothing: Annotated[float, Range(ge=0.0, lt=1.0), WITH_ATTENTION] = 0.15  # ε
    smoothing_over: Annotated[Literal["classes", "token_labels"], WITH_ATTENTION] = "classes"
    default_target: Annotated[DefaultTarget, WITH_ATTENTION] = "one"
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.0
    hidden: Positive = 200
    text_hidden: Positive = 50

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if `heads_of_classes` rejects the labels."""
        super().check(context, encoder)
        heads_of_classes(context)

    @property
    def learns_tokens(self) -> bool:
        """Whether the loss uses token labels."""
        return self.token_weight > 0.0


def heads_of_classes(context: DataSpec) -> Tensor:
    """Return the attention heads (token labels) of each text class: (C, H) bool.

    If every class is also a token label, each class has the head of that label; there may be more token labels. With
    two classes that are not token labels, one has the head of the default label, the other has all other heads.
    Raises ValueError in all other cases, and for fewer than two token labels.
    """
    classes, heads = context.labels, context.token_labels
    if len(heads) < 2:
        raise ValueError(
            f"head: attention_labeler needs at least two token labels, and the data have {len(heads) or 'none'}; "
            "use data with more token labels, or another head, for example linear"
        )
    groups = torch.zeros(context.classes, len(heads), dtype=torch.bool)
    if set(classes) <= set(heads):  # H = S, or tokens have more labels
        groups[torch.arange(len(classes)), torch.tensor([heads.index(name) for name in classes])] = True
        return groups
    if context.classes == 2:  # S = 2
        groups[:, 1:] = True
        groups[context.plain_class] = ~groups[context.plain_class]
        return groups
    raise ValueError(
        "head: attention_labeler needs either two text labels, or text labels that are also token labels; the data "
        f"have {context.classes} text labels ({', '.join(classes)}) and {len(heads)} token labels "
        f"({', '.join(heads)}); use head tagger"
    )


class AttentionLabelerHead(Head, settings=AttentionLabelerConfig):
    """Head with text logits õ from the attention heads' text scores, and token logits a_ih with t̃_i = softmax_h(a_ih).

    The loss is λ_sent L_sent + λ_tok L_tok + λ_attn L_attn + λ_Rq R_q. R_q is the mean over the texts of the batch, or
    of its part in a process or a half; the other terms are summed over the texts, as in the paper. The term λ_LM L_LM
    is the encoder's cost. Special tokens are treated as tokens without a label.
    """

    summed = True

    def __init__(self, config: AttentionLabelerConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("groups", heads_of_classes(context))
        self.groups: Tensor
        self.labeler = AttentionLabeler(
            inputs=encoder.width,
            hidden=config.hidden,
            text_hidden=config.text_hidden,
            heads=len(context.token_labels),
            dropout=config.dropout,
        )

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return text logits (B, C), token logits (B, L, S) and, if `labels` (B,) are given, the summed loss."""
        tokens = encoded.tokens
        evidence = self.labeler(self.config.fuse_layers(encoded), tokens.valid)
        a, logits = evidence.tokens.float(), max_per_class(evidence.texts, self.groups).float()
        if labels is None:
            return Prediction(logits, tokens=a)
        text_loss = self.text_loss(logits, labels, reduction="sum")  # Eq. 9
        weight = self.config
        loss = weight.sentence_weight * text_loss + weight.token_weight * token_loss(a, tokens)
        similarity = query_similarity(evidence.queries.float(), absolute=weight.absolute).mean()  # Eq. 13
        attention = self.attention_loss(a.softmax(-1), tokens.valid, labels).sum()
        loss = loss + weight.attention_weight * attention + weight.query_weight * similarity
        return Prediction(logits, loss, tokens=a)

    def attention_loss(self, p: Tensor, valid: Tensor, labels: Tensor) -> Tensor:
        """Return L_attn of each text (B,) for token label probabilities `p` (B, L, H) and text labels (B,)."""
        config, (classes, heads) = self.config, self.groups.shape
        outcomes = classes if config.smoothing_over == "classes" else heads
        return attention_loss(p, valid, labels, self.groups, config.smoothing, outcomes, config.default_target)


def token_loss(logits: Tensor, tokens: Tokens) -> Tensor:
    """Return the cross-entropy of `logits` (B, L, S), summed over tokens with a label; 0 without any.  Eq. 10."""
    if tokens.labels is None:
        return logits.new_zeros(())
    return cross_entropy(logits.flatten(0, 1), tokens.labels.flatten(), ignore_index=-1, reduction="sum")
