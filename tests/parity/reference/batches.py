"""Conversions from references of one text to batches: padding with noise, and a layer's parameters as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from epigram.nn.layers.types import Tokens
from tests.parity.reference.common import Array

Module = TypeVar("Module", bound=nn.Module)


def texts(lengths: Sequence[int], width: int, seed: int = 0) -> list[Array]:
    """Return one random (L, D) array for each length."""
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(length, width)) for length in lengths]


def padded(rows: Sequence[Array], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return the rows (L, D) as a batch (B, L, D) with its mask (B, L); padding is noise that must have no effect."""
    longest = max(len(row) for row in rows)
    x = 3.0 + 10.0 * np.random.default_rng(99).normal(size=(len(rows), longest, rows[0].shape[1]))
    valid = np.zeros((len(rows), longest), dtype=bool)
    for i, row in enumerate(rows):
        x[i, : len(row)], valid[i, : len(row)] = row, True
    return torch.from_numpy(x).to(dtype), torch.from_numpy(valid)


def padded_weights(rows: Sequence[Array]) -> Tensor:
    """Return token weights, (L,) each, as (B, L), padded with 5."""
    longest = max(len(row) for row in rows)
    return torch.from_numpy(np.stack([np.pad(row, (0, longest - len(row)), constant_values=5.0) for row in rows]))


def padded_ids(rows: Sequence[Sequence[int]], pad_id: int = 0) -> Tokens:
    """Return token ids as a batch, padded with the id of a real token."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows])
    return Tokens(ids, torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None])


def pair(module: Any) -> tuple[Array, Array]:
    """Return weight and bias of a linear or normalization layer in float64."""
    return module.weight.detach().double().numpy(), module.bias.detach().double().numpy()


def scattered(module: Module, seed: int = 0) -> Module:
    """Return the module in float64 and eval mode with all trainable parameters redrawn (no gain is 1, no bias 0)."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
    return module


def assert_rows(batch: Tensor, rows: Sequence[Array], tolerance: float) -> None:
    """Check that the valid part of each text in a batch (B, L, …) equals its reference."""
    for got, wanted in zip(batch.detach().double().numpy(), rows, strict=True):
        np.testing.assert_allclose(got[: len(wanted)], wanted, rtol=tolerance, atol=tolerance)
