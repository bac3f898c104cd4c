"""n-grams of token ids, without text: as exact keys (TF-IDF) and as hashed buckets (fastText)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pithy.layers.hashing import mix
from pithy.layers.types import Tokens


def longest(vocabulary: int) -> int:
    """The most tokens of an n-gram whose key fits 64 bits."""
    n = 0
    while (vocabulary + 1) ** (n + 1) < 2**63:
        n += 1
    return n


def _spans(tokens: Tokens, vocabulary: int, most: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For n = 1..most, the n-grams that start at each place: n, keys (B, L − n + 1), and which are all text.

    A key is the n-gram read as a number to the base V + 1 (digits 1..V), so keys of different n never meet.
    """
    digits = tokens.ids + 1
    key = torch.zeros_like(digits)
    for n in range(1, most + 1):
        span = digits.shape[1] - n + 1
        if span <= 0:
            return
        key = key[:, :span] * (vocabulary + 1) + digits[:, n - 1 :]
        yield n, key, tokens.valid[:, n - 1 :]  # valid tokens are contiguous, so the last one decides


def ngram_keys(tokens: Tokens, vocabulary: int, orders: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """One int64 key an n-gram of the valid tokens, and its row: (K,), (K,); n runs from orders[0] to orders[1]."""
    if orders[1] > longest(vocabulary):
        raise ValueError(f"{orders[1]}-grams of {vocabulary} tokens do not fit 64 bits")
    rows = torch.arange(tokens.ids.shape[0], device=tokens.ids.device).unsqueeze(1).expand_as(tokens.ids)
    keys, owners = [], []
    for n, key, whole in _spans(tokens, vocabulary, orders[1]):
        if n >= orders[0]:
            keys.append(key[whole])
            owners.append(rows[:, : key.shape[1]][whole])
    if not keys:
        return tokens.ids.new_zeros(0), tokens.ids.new_zeros(0)
    return torch.cat(keys), torch.cat(owners)


def count_known(
    tokens: Tokens, known: Tensor, vocabulary: int, orders: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Count the n-grams whose keys are in `known` (F,), sorted: row (K,), place in `known` (K,), count (K,).

    Each n-gram of a row is counted once; rows ascend, and places within a row.
    """
    keys, rows = ngram_keys(tokens, vocabulary, orders)
    size = max(len(known), 1)
    place = torch.searchsorted(known, keys).clamp(max=size - 1)
    found = known[place] == keys if len(known) else torch.zeros_like(keys, dtype=torch.bool)
    cell, count = torch.unique(rows[found] * size + place[found], return_counts=True)
    return cell // size, cell % size, count


def ngram_buckets(tokens: Tokens, vocabulary: int, orders: list[int], buckets: int) -> Tensor:
    """The bucket, 0..buckets − 1, of the n-gram of each order that starts at each token: (B, L, K).

    `buckets` itself stands where there is none: an n-gram never runs past the end of its text. Keys of long n-grams
    may wrap around; the hash that follows makes that as good as any other number.
    """
    out = tokens.ids.new_full((*tokens.ids.shape, len(orders)), buckets)
    for n, key, whole in _spans(tokens, vocabulary, max(orders)):
        if n in orders:
            out[:, : key.shape[1], orders.index(n)] = torch.where(whole, mix(key) % buckets, buckets)
    return out
