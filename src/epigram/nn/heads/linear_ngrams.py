"""Linear head on the pooled state of a text and on TF-IDF of its n-grams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor, nn

from epigram.core.config_types import Positive
from epigram.nn import heads
from epigram.nn.heads.linear import LinearConfig, LinearHead
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.ngrams import DISTINCT, ngram_buckets
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens


@heads.register("linear_ngrams")
@dataclass(frozen=True, kw_only=True)
class LinearNgramsConfig(LinearConfig):
    """Settings of the head `linear`, and n-grams of all `orders`, hashed into `buckets`."""

    orders: Annotated[list[Positive], DISTINCT] = field(default_factory=lambda: [1, 2])
    buckets: Positive = 2**18


class LinearNgramsHead(LinearHead, settings=LinearNgramsConfig):
    """Pooled state (B, D) and TF-IDF of hashed n-grams → logits (B, C), each by a linear layer.

    The TF-IDF vector of a text has sublinear term frequencies and unit length. `idf` holds the inverse document
    frequencies; they are 1 unless a fitter sets them. Special tokens and the prompt are not counted.
    """

    idf: Tensor

    def __init__(self, config: LinearNgramsConfig, context: DataSpec, encoder: Encoder) -> None:
        super().__init__(config, context, encoder)
        self.vocabulary, self.orders, self.buckets = context.vocabulary, config.orders, config.buckets
        self.before, self.after = len(context.prefix_ids), len(context.suffix_ids)
        self.ngrams = nn.Embedding(config.buckets + 1, context.classes, padding_idx=config.buckets)
        nn.init.zeros_(self.ngrams.weight)
        self.register_buffer("idf", torch.ones(config.buckets + 1))
        self.idf[config.buckets] = 0.0

    def forward(self, encoded: Encoded, labels: Tensor | None = None) -> Prediction:
        """Return the logits (B, C) and, if `labels` (B,) or (B, C) are given, the mean loss."""
        bucket, value = self.features(encoded.read or encoded.tokens)
        logits = self.out(self.dropout(self.text_states(encoded)))
        logits = logits + (self.ngrams(bucket).float() * value.unsqueeze(-1)).sum(1)
        return Prediction(logits, None if labels is None else self.text_loss(logits, labels))

    def features(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Return the bucket of every n-gram of a text (B, K) and its TF-IDF value (B, K).

        A bucket that occurs several times in a text has its value in equal parts. The bucket `buckets` is padding.
        """
        bucket = self.find_buckets(tokens)
        count = (bucket.unsqueeze(2) == bucket.unsqueeze(1)).sum(2).float()
        weight = (1 + count.log()) * self.idf[bucket]
        length = (weight.square() / count).sum(1, keepdim=True).clamp(min=1e-12).sqrt()
        return bucket, weight / count / length

    def find_buckets(self, tokens: Tokens) -> Tensor:
        """Return the bucket of every n-gram of a text's own tokens, (B, K)."""
        ids = tokens.ids[:, self.before :]
        lengths = tokens.valid.sum(1, keepdim=True) - self.before - self.after
        own = Tokens(ids, torch.arange(ids.shape[1], device=ids.device) < lengths)
        return ngram_buckets(own, self.vocabulary, self.orders, self.buckets).flatten(1)
