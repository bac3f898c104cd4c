"""Hook fusion of the layers (Transformer-F, Eq. 6, 7): the first and last layers weigh most."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def hook_weights(layers: int, a: float = 0.4, b: float = 2.9) -> Tensor:
    """Hook(l) = (a·l + b/l) / (N/2) for l = 1..N, (N,).  Eq. 6; lowest at l = √(b/a)."""
    level = torch.arange(1, layers + 1, dtype=torch.float32)
    return (a * level + b / level) / (layers / 2)


def fuse(states: Sequence[Tensor]) -> Tensor:
    """Σ_l Hook(l) · block_l over the N layer outputs (B, L, D), the embeddings left out.  Eq. 7."""
    blocks = states[1:]
    weights = hook_weights(len(blocks)).tolist()
    total: Tensor = blocks[0] * weights[0]
    for weight, block in zip(weights[1:], blocks[1:], strict=True):
        total = total + weight * block
    return total
