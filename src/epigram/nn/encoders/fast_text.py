"""fastText encoder (Joulin et al., 2017): vectors of words and of hashed n-grams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from torch import nn

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.ngrams import DISTINCT, ngram_buckets
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("fast_text")
@dataclass(frozen=True, kw_only=True)
class FastTextConfig(WeightedEncoderSettings):
    """Settings of the encoder; n-grams of all `orders` (values of n) are hashed into `buckets` shared vectors."""

    reads_whole_text: ClassVar[bool] = False

    width: Positive = 32
    orders: Annotated[list[Annotated[int, Range(ge=2)]], DISTINCT] = field(default_factory=lambda: [2, 3])
    buckets: Positive = 50_000


class FastTextEncoder(Encoder, settings=FastTextConfig):
    """Encoder whose states have, as their mean over a text's L tokens, the mean over its F words and n-grams.

    A token's state is L / F times the sum of its own vector and the vectors of the n-grams that start at it. The n-gram
    vectors are initialized to zero, so an n-gram that training never saw changes only F.
    """

    def __init__(self, config: FastTextConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width, self.vocabulary = config, config.width, context.vocabulary
        self.embedding = TokenEmbedding(context, width=config.width, pos_weight=config.pos_weight)
        self.ngrams = nn.Embedding(config.buckets + 1, config.width, padding_idx=config.buckets)
        nn.init.zeros_(self.ngrams.weight)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the word vectors (B, L, D) and the states of words and n-grams together (B, L, D)."""
        x, no_ngram = self.embedding(tokens), self.config.buckets
        index = ngram_buckets(tokens, self.vocabulary, self.config.orders, no_ngram)  # (B, L, K)
        sums = self.ngrams(index).sum(2)
        words = tokens.valid.sum(1)
        features = words + (index < no_ngram).sum((1, 2))
        return Encoded((x, (x + sums) * (words / features)[:, None, None].to(x.dtype)), tokens)
