"""Token embeddings with position embeddings, and a frozen table with one byte per number."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from epigram.nn.layers.attention.pos_weighting import PosScaling, VectorWeight
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.types import DataSpec, Tokens

GROUPS = 17  # the rows v with the same v mod 17 share scale and offset
RANDOM_ROWS = 257  # different rows of random codes; more would take longer than to load a checkpoint


class QuantizedEmbedding(nn.Module):
    """Token vectors scale · code + offset, with codes from 0 to 255: (B, L) → (B, L, E).

    The table (V, E) is not trained. Without a checkpoint the codes are random, so that vectors are between -1 and 1;
    they repeat after RANDOM_ROWS rows.
    """

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("codes", _random_codes(rows, width))
        self.register_buffer("scale", torch.full((GROUPS,), 2 / 255))
        self.register_buffer("offset", torch.full((GROUPS,), -1.0))
        self.codes: Tensor
        self.scale: Tensor
        self.offset: Tensor

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of `ids` (B, L)."""
        group = ids % GROUPS
        return self.codes[ids].to(self.scale.dtype) * self.scale[group].unsqueeze(-1) + self.offset[group].unsqueeze(-1)


def _random_codes(rows: int, width: int) -> Tensor:
    """Return random codes (rows, width) that repeat after RANDOM_ROWS rows."""
    if torch.get_default_device().type == "meta":  # repetition on it imports SymPy
        return torch.empty(rows, width, dtype=torch.uint8)
    some = torch.empty(min(rows, RANDOM_ROWS), width, dtype=torch.uint8).random_(0, 256)
    return some.repeat(-(-rows // RANDOM_ROWS), 1)[:rows]


Positions = Literal["none", "sinusoidal", "learned"]


def sinusoids(length: int, width: int) -> Tensor:
    """Return the sine and cosine position vectors (length, width) of Vaswani et al. (2017)."""
    if torch.get_default_device().type == "meta":  # arithmetic on it imports PyTorch's compiler
        return torch.empty(length, width)
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


class TokenEmbedding(nn.Module):
    """Embedding of tokens plus their positions, zero on padding: (B, L) → (B, L, D).

    The vector of the unknown token starts at zero. If the vocabulary covers all training texts, this vector is never
    trained, and a random one would favour some class. With `pos_weight: embedding`, each vector is multiplied by the
    part-of-speech weight of its token. With sinusoidal positions, token vectors start with the variance 1/D and are
    multiplied by √D (Vaswani et al., 2017, §3.4): otherwise the positions would hide them.
    """

    def __init__(
        self,
        context: DataSpec,
        *,
        width: int,
        dropout: float = 0.0,
        positions: Positions = "none",
        norm: bool = False,
        pos_weight: VectorWeight = "none",
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(context.vocabulary, width)
        sinusoidal = positions == "sinusoidal"
        nn.init.normal_(self.token.weight, std=width**-0.5 if sinusoidal else 0.02 if norm else 0.1)
        nn.init.zeros_(self.token.weight[context.unk_id])
        self.position: nn.Embedding | None = None
        if positions == "learned":
            self.position = nn.Embedding(context.max_length, width)
            nn.init.normal_(self.position.weight, std=0.02)
        self.register_buffer("wave", sinusoids(context.max_length, width) if sinusoidal else None, persistent=False)
        self.wave: Tensor | None
        # saved with the weights, so that weights that were trained without it are refused and not misread
        self.register_buffer("scale", torch.tensor(width**0.5) if sinusoidal else None)
        self.scale: Tensor | None
        self.norm: nn.Module = nn.LayerNorm(width) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.scaling = PosScaling(pos_weight, context)

    def forward(self, tokens: Tokens) -> Tensor:
        """Return the vectors (B, L, D) of `tokens`."""
        x: Tensor = self.token(tokens.ids) if tokens.vectors is None else tokens.vectors
        length = tokens.ids.shape[1]
        if self.position is not None:
            x = x + self.position.weight[:length]
        elif self.wave is not None and self.scale is not None:
            x = self.scale * x + self.wave[:length]
        x = self.dropout(self.norm(x))
        out: Tensor = self.scaling(x * tokens.valid.unsqueeze(-1).to(x.dtype), tokens)
        return out
