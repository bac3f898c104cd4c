"""n-grams of token ids and of characters, as exact keys (TF-IDF), and of token ids as hashed buckets (fastText)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from epigram.core.config_types import Checked
from epigram.nn.layers.types import Tokens

# SplitMix64's multipliers as signed 64-bit numbers
_MIX = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


def mix(x: Tensor) -> Tensor:
    """Hash each int64 element of `x` to an int64 value (SplitMix64's mixing steps, with arithmetic shifts)."""
    x = x * _MIX[0]
    x = (x ^ (x >> 30)) * _MIX[1]
    x = (x ^ (x >> 27)) * _MIX[2]
    return x ^ (x >> 31)


DISTINCT = Checked(lambda orders: 0 < len(orders) == len(set(orders)), "distinct values of n, for example [1, 2]")
SPELLED = torch.iinfo(torch.int64).min  # added to the keys of n-grams of characters, so that they are negative


class Counted(NamedTuple):
    """The n-grams to count: n-grams of tokens, and of each token's characters unless `spelled` is None.

    `orders` and `spelled` are the lowest and the highest n, `alphabet` the number of character ids.
    """

    vocabulary: int
    orders: tuple[int, int]
    alphabet: int = 0
    spelled: tuple[int, int] | None = None


def max_n(vocabulary: int) -> int:
    """Return the largest n for which the key of an n-gram fits into a signed 64-bit integer."""
    n = 0
    while (vocabulary + 1) ** (n + 1) < 2**63:
        n += 1
    return n


def _ngrams(tokens: Tokens, vocabulary: int, max_order: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield n, the keys (B, L − n + 1) of the n-grams at each start position, and their validity, n = 1..max_order."""
    # a key is the n-gram as a number to the base V + 1 with digits 1..V, so keys of different n never collide
    digits = tokens.ids + 1
    key = torch.zeros_like(digits)
    for n in range(1, max_order + 1):
        span = digits.shape[1] - n + 1
        if span <= 0:
            return
        key = key[:, :span] * (vocabulary + 1) + digits[:, n - 1 :]
        yield n, key, tokens.valid[:, n - 1 :]  # valid tokens are contiguous: the last one decides


def ngram_keys(tokens: Tokens, vocabulary: int, orders: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the int64 key and the row of every n-gram of valid tokens: (K,), (K,), for n = orders[0]..orders[1].

    Raises ValueError if the keys do not fit into 64 bits.
    """
    if orders[1] > max_n(vocabulary):
        raise ValueError(f"keys of {orders[1]}-grams do not fit 64 bits with a vocabulary of {vocabulary:,} tokens")
    rows = torch.arange(tokens.ids.shape[0], device=tokens.ids.device).unsqueeze(1).expand_as(tokens.ids)
    keys, owners = [], []
    for n, key, complete in _ngrams(tokens, vocabulary, orders[1]):
        if n >= orders[0]:
            keys.append(key[complete])
            owners.append(rows[:, : key.shape[1]][complete])
    if not keys:
        return tokens.ids.new_zeros(0), tokens.ids.new_zeros(0)
    return torch.cat(keys), torch.cat(owners)


def character_keys(tokens: Tokens, alphabet: int, orders: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the key and the row of every n-gram of the characters of a valid token: (K,), (K,), n as in `ngram_keys`.

    A token is read between two marks, which have the id `alphabet`. Tokens without characters have no n-grams.
    """
    assert tokens.characters is not None
    own = tokens.valid & (tokens.characters[..., 0] > 0)
    spelling, rows = tokens.characters[own], own.nonzero()[:, 0]  # (T, W), (T,)
    marked = torch.nn.functional.pad(spelling, (1, 1))
    marked[:, 0] = alphabet
    marked.scatter_(1, 1 + (spelling > 0).sum(1, keepdim=True), alphabet)
    keys, owners = ngram_keys(Tokens(marked - 1, marked > 0), alphabet, orders)
    return keys + SPELLED, rows[owners]


def has_only_counted(keys: Tensor, counted: Counted) -> bool:
    """Return whether sorted `keys` (F,) differ from each other and are keys of n-grams that are counted."""
    parts = [(keys[keys >= 0], counted.vocabulary, counted.orders)]
    parts.append((keys[keys < 0] - SPELLED, counted.alphabet, counted.spelled or (1, 0)))
    inside = [(part >= (size + 1) ** (n[0] - 1)) & (part < (size + 1) ** n[1]) for part, size, n in parts]
    return bool(torch.cat(inside).all() and (keys.diff() > 0).all())


def counted_keys(tokens: Tokens, counted: Counted) -> tuple[Tensor, Tensor]:
    """Return the key and the row of every n-gram to count: (K,), (K,)."""
    keys, rows = ngram_keys(tokens, counted.vocabulary, counted.orders)
    if counted.spelled is None:
        return keys, rows
    spelled, owners = character_keys(tokens, counted.alphabet, counted.spelled)
    return torch.cat([spelled, keys]), torch.cat([owners, rows])


def count_known(tokens: Tokens, known: Tensor, counted: Counted) -> tuple[Tensor, Tensor, Tensor]:
    """Count the n-grams whose keys are in `known` (F,), which must be sorted.

    Returns the row, the index in `known` and the count of each distinct n-gram of a row: (K,) each, sorted by row,
    then by index.
    """
    keys, rows = counted_keys(tokens, counted)
    size = max(len(known), 1)
    index = torch.searchsorted(known, keys).clamp(max=size - 1)
    is_known = known[index] == keys if len(known) else torch.zeros_like(keys, dtype=torch.bool)
    cell, count = torch.unique(rows[is_known] * size + index[is_known], return_counts=True)
    return cell // size, cell % size, count


def ngram_buckets(tokens: Tokens, vocabulary: int, orders: list[int], buckets: int) -> Tensor:
    """Return the bucket, 0..buckets − 1, of the n-gram that starts at each token, for each of K orders: (B, L, K).

    The value is `buckets` if the n-gram would extend beyond the end of the text. Keys of long n-grams may overflow
    and wrap around; this is harmless because they are hashed.
    """
    out = tokens.ids.new_full((*tokens.ids.shape, len(orders)), buckets)
    for n, key, complete in _ngrams(tokens, vocabulary, max(orders)):
        if n in orders:
            out[:, : key.shape[1], orders.index(n)] = torch.where(complete, mix(key) % buckets, buckets)
    return out
