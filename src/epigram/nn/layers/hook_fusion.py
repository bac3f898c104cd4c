"""Hook fusion of the layers (Transformer-F, Eq. 6, 7): the first and the last layer have the largest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from epigram.core.config_types import Range
from epigram.core.effects import Only
from epigram.nn.layers.encoder import EncoderSettings
from epigram.nn.layers.head import HeadSettings
from epigram.nn.layers.types import DataSpec, Encoded

PAPER_A, PAPER_B = 0.4, 2.9
Factor = Annotated[float, Range(gt=0.0), Only("fusion", "hook")]


def hook_weights(layers: int, a: float = PAPER_A, b: float = PAPER_B) -> Tensor:
    """Return Hook(l) = (a·l + b/l) / (N/2) for l = 1..N, (N,).  Eq. 6; its minimum is at l = √(b/a)."""
    level = torch.arange(1, layers + 1, dtype=torch.float32)
    return (a * level + b / level) / (layers / 2)


def fuse(states: Sequence[Tensor], a: float = PAPER_A, b: float = PAPER_B) -> Tensor:
    """Return Σ_l Hook(l) · block_l (B, L, D) over the N layer outputs.  Eq. 7.

    `states` are N + 1 tensors (B, L, D); the first, the embeddings, is not used. A sum in bfloat16 is rounded once.
    """
    blocks = states[1:]
    exact = torch.promote_types(blocks[0].dtype, torch.float32)
    weights = hook_weights(len(blocks), a, b).tolist()
    total: Tensor = blocks[0].to(exact) * weights[0]
    for weight, block in zip(weights[1:], blocks[1:], strict=True):
        total = torch.add(total, block, alpha=weight)
    return total.to(states[-1].dtype)


@dataclass(frozen=True, kw_only=True)
class FusionConfig(HeadSettings):
    """Settings of a head that reads one state per token: the last layer's, or the hook fusion of all layers.

    `hook_a` and `hook_b` are a and b of Eq. 6.
    """

    fusion: Literal["last", "hook"] = "last"
    hook_a: Factor = PAPER_A
    hook_b: Factor = PAPER_B

    def check(self, context: DataSpec, encoder: EncoderSettings) -> None:
        """Raise ValueError also if `fusion` is `hook` and the encoder has no layers to fuse."""
        super().check(context, encoder)
        if self.fusion == "hook" and not encoder.has_layers:
            raise ValueError(
                "head.fusion is 'hook', but this encoder has no layers to fuse; set it to last, or use an encoder with "
                "layers, for example transformer"
            )

    def fuse_layers(self, encoded: Encoded) -> Tensor:
        """Return the last layer's states or the hook fusion of all layers (Transformer-F, Eq. 7): (B, L, D)."""
        return encoded.last if self.fusion == "last" else fuse(encoded.states, self.hook_a, self.hook_b)
