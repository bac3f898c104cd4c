"""Hook fusion of the layers (Transformer-F, Eq. 6, 7): the first and the last layer have the largest weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def hook_weights(layers: int, a: float = 0.4, b: float = 2.9) -> Tensor:
    """Return Hook(l) = (a·l + b/l) / (N/2) for l = 1..N, (N,).  Eq. 6; its minimum is at l = √(b/a)."""
    level = torch.arange(1, layers + 1, dtype=torch.float32)
    return (a * level + b / level) / (layers / 2)


def fuse(states: Sequence[Tensor]) -> Tensor:
    """Return Σ_l Hook(l) · block_l (B, L, D) over the N layer outputs.  Eq. 7.

    `states` are N + 1 tensors (B, L, D); the first, the embeddings, is not used.
    """
    blocks = states[1:]
    weights = hook_weights(len(blocks)).tolist()
    total: Tensor = blocks[0] * weights[0]
    for weight, block in zip(weights[1:], blocks[1:], strict=True):
        total = total + weight * block
    return total
