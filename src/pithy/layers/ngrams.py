"""TF-IDF over n-grams of token ids, without text: the features of the linear baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from pithy.layers.types import Tokens


def ngram_keys(tokens: Tokens, vocabulary: int, orders: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """One int64 key an n-gram of the valid tokens, and its row: (K,), (K,); n runs from orders[0] to orders[1].

    A key is the n-gram read as a number to the base V + 1 (digits 1..V), so keys of different n never meet.
    """
    if (vocabulary + 1) ** orders[1] >= 2**63:
        raise ValueError(f"{orders[1]}-grams of {vocabulary} tokens do not fit 64 bits")
    digits = tokens.ids + 1
    rows = torch.arange(digits.shape[0], device=digits.device).unsqueeze(1).expand_as(digits)
    keys, owners = [], []
    key = torch.zeros_like(digits)
    for n in range(1, orders[1] + 1):
        span = digits.shape[1] - n + 1
        if span <= 0:
            break
        key = key[:, :span] * (vocabulary + 1) + digits[:, n - 1 :]  # n-gram that starts at each token
        if n >= orders[0]:
            whole = tokens.valid[:, n - 1 :]  # valid tokens are contiguous, so the last one decides
            keys.append(key[whole])
            owners.append(rows[:, :span][whole])
    if not keys:
        return digits.new_zeros(0), digits.new_zeros(0)
    return torch.cat(keys), torch.cat(owners)
