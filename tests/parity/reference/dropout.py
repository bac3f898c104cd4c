"""Attention dropout with recorded masks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor

from tests.parity.reference.common import Array


@contextmanager
def captured() -> Iterator[list[Array]]:
    """Record the masks of attention dropout inside the block, each (B, H, L, L): 0 or 1 / (1 - rate)."""
    masks: list[Array] = []
    generator = torch.Generator().manual_seed(1)

    def keep_factors(x: Tensor, rate: float) -> Tensor:
        kept = (torch.rand(x.shape, generator=generator) >= rate).to(x.dtype) / (1 - rate)
        mask = kept.double().numpy()
        masks.append(mask if mask.ndim == 4 else mask[:, None])  # correlation attention has one head
        return kept

    with (
        patch("epigram.nn.layers.attention.dot_product.drop", lambda x, rate: x * keep_factors(x, rate)),
        patch("epigram.nn.layers.attention.correlation.keep_factors", keep_factors),
    ):
        yield masks


def of_text(mask: Array, row: int, length: int) -> Array:
    """Return the part (H, L, L) of a batch's mask that belongs to one text."""
    return mask[row, :, :length, :length]
