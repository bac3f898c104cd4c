"""Head-to-head attention (HTH, Eq. 1–6): the heads of an attention weigh each other."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from pithy.layers.dropout import Dropout

Gate = Literal["paper", "residual"]
Site = Literal["scores", "context"]


def token_mean(x: Tensor, valid: Tensor | None) -> Tensor:
    """Mean of `x` (B, H, L, d) over valid tokens (B, L), all of them without a mask: (B, H, d)."""
    if valid is None:
        return x.mean(2)
    share = valid.to(x.dtype) / valid.sum(1, keepdim=True).clamp(min=1)  # (B, L)
    return torch.einsum("bl,bhld->bhd", share, x)


class HeadToHead(nn.Module):
    """One factor a row and head, from all heads' means, on the scores U = QKᵀ/√d or on the context softmax(U) V.

    gate: `paper` multiplies by M̃; `residual` by 1 + s·M̃, where s is learnt from 0, so that a pretrained attention
    starts as it was. The scores are squeezed and scaled by way of q and k, exactly and without an L×L matrix: a mean
    of dot products is the dot product of the means, and scaling a head's U is scaling its q.
    """

    def __init__(self, *, heads: int, gate: Gate, site: Site, dropout: float) -> None:
        super().__init__()
        if heads < 2:
            raise ValueError(
                f"encoder.head_to_head was {gate!r}: it weighs heads against each other, and this attention has one; "
                "give the encoder 2 heads or more, or set it to none"
            )
        self.site = site
        self.first, self.second = nn.Linear(heads, heads), nn.Linear(heads, heads)
        self.strength = nn.Parameter(torch.zeros(())) if gate == "residual" else None
        self.dropout = Dropout(dropout)

    def factors(self, m: Tensor) -> Tensor:
        """What each head is multiplied by, (B, H), for the squeezed `m` (B, H)."""
        x, y = self.first(m).sigmoid(), self.second(m).sigmoid()  # Eq. 2, 3
        z = (x.unsqueeze(2) * y.unsqueeze(1) / math.sqrt(m.shape[1])).softmax(-1)  # (B, H, H) Eq. 4
        weights: Tensor = self.dropout((z @ m.unsqueeze(2)).squeeze(2))  # M̃ Eq. 5
        return weights if self.strength is None else 1 + self.strength * weights

    def query(self, q: Tensor, k: Tensor, valid: Tensor | None, scale: float) -> Tensor:
        """The queries (B, H, L, d) that make `scale` · q kᵀ the rescaled scores; as they are for the site context."""
        if self.site != "scores":
            return q
        m = (token_mean(q, valid) * token_mean(k, valid)).sum(-1) * scale  # Eq. 1
        return q * self.factors(m)[:, :, None, None].to(q.dtype)  # Eq. 6

    def context(self, y: Tensor, valid: Tensor | None) -> Tensor:
        """The rescaled context (B, H, L, d); as it is for the site scores."""
        if self.site != "context":
            return y
        m = token_mean(y, valid).mean(-1)  # Eq. 1
        return y * self.factors(m)[:, :, None, None].to(y.dtype)  # Eq. 6
