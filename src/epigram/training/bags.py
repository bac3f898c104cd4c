"""Texts as bags of token and n-gram vectors, hashed once for a whole training of a fast_text encoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.models.batches import Rows, TextBatches
from epigram.nn.encoders.fast_text import FastTextEncoder
from epigram.nn.layers.ngrams import ngram_buckets
from epigram.nn.layers.pos_weighting import token_weights
from epigram.nn.layers.types import Tokens

READ = 1024, 262_144  # maximum texts and tokens that are hashed at once
PREDICTED = 4_096  # texts of a batch for inference


@dataclass(frozen=True)
class Bags:
    """Vectors of N texts: row n of `columns` are those of text n, with the part-of-speech `weights` (T,) if there are.

    Column c < V is token c, and column V + b is bucket b of the n-grams, whose weights are 1.
    """

    columns: Ragged[np.int32]
    weights: NDArray[np.float32] | None

    def __getitem__(self, rows: Rows) -> Bags:
        """Return the bags of the texts `rows` (B,)."""
        places = self.columns.places(rows)
        columns = places.with_values(self.columns.values[places.values])
        return Bags(columns, None if self.weights is None else self.weights[places.values])

    def shares(self) -> NDArray[np.float32]:
        """Return the share of each vector (T,) in the mean state of its text: its weight / F, for F vectors."""
        shares = self.columns.spread((1 / self.columns.lengths).astype(np.float32))
        return shares if self.weights is None else shares * self.weights


@dataclass(frozen=True)
class BagTokens(Tokens):
    """Batch of B texts with their `bags`, each text as one token: its number, (B, 1)."""

    bags: Any = None


class BagTexts(TextBatches):
    """Texts whose batches are bags; their lengths and labels are those of the given texts."""

    bags: Bags
    places: Rows  # of the texts among the bags

    @classmethod
    def of(cls, encoder: FastTextEncoder, texts: TextBatches) -> BagTexts:
        """Return `texts` as bags for `encoder`."""
        new = cls.__new__(cls)
        vars(new).update(vars(texts))
        new.bags, new.places = read_bags(encoder, texts)
        return new

    def gather(self, rows: Rows) -> BagTokens:
        """Return the texts `rows` (B,)."""
        ids = torch.from_numpy(rows)[:, None]
        return BagTokens(ids, torch.ones_like(ids, dtype=torch.bool), bags=self.bags[self.places[rows]])

    def epoch(self, generator: np.random.Generator, batch_size: int, max_tokens: int) -> list[Rows]:
        """Return all rows in a new order as batches, of any lengths: bags are not padded."""
        return list(self._cut(generator.permutation(len(self)), batch_size, max_tokens))

    def in_order(self, batch_size: int, max_tokens: int) -> Iterator[Rows]:
        """Return all rows once as batches for inference; the limits are for padded tokens, which bags do not have."""
        yield from np.array_split(np.arange(len(self)), -(-len(self) // PREDICTED))


def read_bags(encoder: FastTextEncoder, texts: TextBatches) -> tuple[Bags, Rows]:
    """Return the bags of `texts`, in another order, and the place of each text in that order, (N,)."""
    order, columns, weights = [], [], []
    for rows in texts.in_order(*READ):
        own, factors = _read(encoder, texts.gather(rows))
        order.append(rows)
        columns.append(own)
        weights.append(factors)
    known = [each for each in weights if each is not None]
    bags = Bags(Ragged.concatenate(columns), np.concatenate(known) if known else None)
    return bags, np.argsort(np.concatenate(order))


def _read(encoder: FastTextEncoder, tokens: Tokens) -> tuple[Ragged[np.int32], NDArray[np.float32] | None]:
    """Return the columns of each text of a batch (B, L), and their weights unless all are 1."""
    config, size = encoder.config, encoder.vocabulary
    grams = ngram_buckets(tokens, size, config.orders, config.buckets)  # (B, L, N)
    found = torch.cat([tokens.valid.unsqueeze(2), grams < config.buckets], 2).numpy()
    columns = torch.cat([tokens.ids.unsqueeze(2), grams + size], 2).int().numpy()
    bags = Ragged.from_lengths(columns[found], found.sum((1, 2)))
    weights = token_weights(encoder.embedding.scaling.pos_weight, tokens)
    if weights is None:
        return bags, None
    factors = np.ones(columns.shape, np.float32)
    factors[:, :, 0] = weights.numpy()
    return bags, factors[found]
