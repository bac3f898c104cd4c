"""Head with label co-attention and a recurrent label decoder (CNLE, Liu et al., 2021), for one or several labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Only, Unless
from epigram.nn import heads
from epigram.nn.layers.attention.co_attention import CoAttention
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.head import Head
from epigram.nn.layers.hook_fusion import FusionConfig
from epigram.nn.layers.pooling import key_mask
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.recurrent.label_decoder import DecoderInput, LabelDecoder, beam_search
from epigram.nn.layers.types import DataSpec, Encoded, Prediction

SEVERAL = Only("data.multi", True, because="a text has one label")


@heads.register("label_decoder")
@dataclass(frozen=True, kw_only=True)
class LabelDecoderConfig(FusionConfig):
    """Settings of the head: the paper's sizes, and training and search for several labels per text.

    `decision`: with `decoder`, a text has the labels that the search chose before `<eos>`; with `threshold`, the labels
    whose probability is above a threshold tuned on dev, so that `beam` and `max_labels` only change probabilities.
    """

    searches: ClassVar[bool] = True  # several labels are found by a search, which has no gradients

    embedding: Positive = 300  # width of a label embedding
    heads: Positive = 4
    hidden: Positive = 150
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.2
    order: Annotated[Literal["frequency", "shuffle"], SEVERAL] = "frequency"  # order of a text's labels in training
    # 1 is greedy; the first step of every search chooses the most probable label
    beam: Annotated[int, Range(ge=1), SEVERAL, Unless("max_labels", 1)] = 1
    max_labels: Annotated[int | None, Range(ge=1), SEVERAL] = None  # per text; default: the number of classes
    decision: Annotated[Literal["decoder", "threshold"], SEVERAL] = "decoder"  # selection of the labels of a text

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if the encoder's width is odd or not a multiple of `heads`."""
        width = encoder.state_width(context)
        if width % self.heads or width % 2:
            raise ValueError(
                "head: label_decoder needs an encoder whose width is even and a multiple of head.heads "
                f"({self.heads}); the encoder's width is {width}"
            )
        super().check(context, encoder)


class LabelDecoderHead(Head, settings=LabelDecoderConfig):
    """Co-attention of text X and labels Λ, then a decoder that predicts labels until `<eos>`, the last row of Λ.

    The labels are encoded by the encoder's BiLSTM (`encoder.label_bilstm`) if it has one, otherwise by the head's own.

    With one label per text, the decoder runs one step over the C labels, without `<eos>`. With several, the loss is
    summed over the steps. A label's probability is then (1 if chosen, else 0, plus its highest ŷ_t over the steps) / 2,
    so the sigmoid of a logit is above 0.5 exactly for the labels that the decoder chose.
    """

    def __init__(self, config: LabelDecoderConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__()
        self.config, self.classes, self.multi = config, context.classes, context.multi
        self.decodes = context.multi and config.decision == "decoder"
        width = encoder.width
        shared = encoder.label_bilstm
        self.own = None if shared is not None else BiLstm(inputs=width, width=width, dropout=config.dropout)
        # a tuple hides it from the module tree: the encoder owns these weights
        self.shared: tuple[BiLstm | None] = (shared,)
        inputs = width if shared is None else shared.inputs
        self.embedding = nn.Embedding(context.classes + 1, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.project = nn.Linear(config.embedding, inputs)
        self.co_attention = CoAttention(width=width, heads=config.heads, hidden=config.hidden, dropout=config.dropout)
        self.text_bilstm, self.label_bilstm = (BiLstm(inputs=width, width=width) for _ in range(2))
        self.decoder = LabelDecoder(inputs=inputs, width=width)
        self.dropout = Dropout(config.dropout)
        shares = torch.zeros(context.classes) if context.label_shares is None else context.label_shares
        rank = shares.argsort(descending=True, stable=True).argsort()
        self.register_buffer("rank", rank)  # 0 is the most frequent label
        self.rank: Tensor

    @property
    def bilstm(self) -> BiLstm:
        """The BiLSTM that encodes the labels."""
        bilstm = self.shared[0] if self.own is None else self.own
        assert bilstm is not None
        return bilstm

    @property
    def steps(self) -> int:
        """The largest number of labels that the search may choose for a text."""
        return (self.config.max_labels or self.classes) if self.multi else 1

    def decoder_input(self, encoded: Encoded) -> DecoderInput:
        """Compute X_fin, Λ_fin and the other inputs of the decoder."""
        valid = encoded.tokens.valid
        rows = torch.arange(self.classes + 1, device=valid.device)
        embedded = self.project(self.dropout(self.embedding(rows)))  # (M, I)
        all_valid = torch.ones_like(rows, dtype=torch.bool).unsqueeze(0)
        labels, _ = self.bilstm(embedded.unsqueeze(0), all_valid, len(rows))  # Λ, the same for every text: (1, M, D)
        mask, states = key_mask(valid, encoded.tokens.full), self.config.fuse_layers(encoded)
        text, labels = self.co_attention(states, labels, mask)  # X_fuse (B, L, D), Λ_fuse (B, M, D)
        text, (h, c) = self.text_bilstm(text, valid, encoded.tokens.shortest)  # X_fin
        labels, _ = self.label_bilstm(labels, all_valid.expand(labels.shape[0], -1), len(rows))  # Λ_fin
        return DecoderInput(text, mask, labels, embedded, h, c)

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` are given, the mean over the batch of −Σ_t log ŷ_{t, y_t}.

        `labels` are class indices (B,) or, for several labels per text, indicators (B, C).
        """
        decoder_input = self.decoder_input(encoded)
        if not self.multi:
            h, _ = self.decoder.start(decoder_input)
            logits = self.decoder.scores(h, decoder_input)[:, 0, : self.classes]
            return Prediction(logits, None if labels is None else self.text_loss(logits, labels))
        loss = None if labels is None else self.loss(decoder_input, labels)
        with torch.no_grad():
            # training needs the loss only, so one step of the search is enough
            steps = 1 if self.training else self.steps
            chosen, highest = beam_search(self.decoder, decoder_input, beams=self.config.beam, max_labels=steps)
        p = (chosen + highest.clamp(1e-6, 1 - 1e-6)) / 2
        return Prediction(p.logit(), loss)

    def loss(self, decoder_input: DecoderInput, labels: Tensor) -> Tensor:
        """Return the mean over the batch of −Σ_t log ŷ_{t, y_t} for indicators `labels` (B, C)."""
        targets, counts = self.targets(labels)
        logits = self.decoder(decoder_input, targets)  # (B, T, M)
        each = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
        counted = torch.arange(targets.shape[1], device=labels.device) <= counts.unsqueeze(1)
        return (each * counted).sum() / len(labels)

    def targets(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return each text's labels, padded with `<eos>` (B, T), and their number (B,).

        The labels are ordered by training frequency or shuffled. T is the largest number of labels of a text plus one.
        """
        present, counts = labels > 0, (labels > 0).sum(1)
        shuffled = self.config.order == "shuffle" and self.training
        keys = torch.rand(present.shape, device=present.device) if shuffled else self.rank.float()
        order = torch.where(present, keys, torch.inf).argsort(1)  # (B, C)
        position = torch.arange(int(counts.max()) + 1, device=labels.device)
        return torch.where(position < counts.unsqueeze(1), pad(order, (0, 1))[:, : len(position)], self.classes), counts
