"""Head-to-head attention (HTH, Eq. 1–6): the heads of an attention layer rescale each other."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from epigram.nn.layers.dropout import Dropout

Gate = Literal["paper", "residual"]
Site = Literal["scores", "context"]


def token_mean(x: Tensor, valid: Tensor | None) -> Tensor:
    """Return the mean of `x` (B, H, L, d) over valid tokens (B, L), or over all tokens without a mask: (B, H, d)."""
    if valid is None:
        return x.mean(2)
    share = valid.to(x.dtype) / valid.sum(1, keepdim=True).clamp(min=1)  # (B, L)
    tokens = x.transpose(1, 2).flatten(2)  # (B, L, H·d), without a copy of what a projection returned
    return torch.bmm(share.unsqueeze(1), tokens).view(len(x), x.shape[1], -1)


def check_heads(setting: str, heads: int) -> None:
    """Raise ValueError if `setting` selects head-to-head attention, and there is one head."""
    if setting != "none" and heads < 2:
        raise ValueError(
            f"encoder.head_to_head is {setting!r}, but the attention has one head; "
            "set the encoder's heads to at least 2, or head_to_head to none"
        )


class HeadToHead(nn.Module):
    """Module that computes one factor per text and head from the means of all heads.

    `site` says what is averaged and scaled: the `scores` U = QKᵀ/√d or the `context` softmax(U) V. With `gate`
    `paper` the factor is M̃. With `residual` it is 1 + s·M̃, where s is trained and starts at 0, so that a pretrained
    attention starts unchanged. For `scores`, no L×L matrix is built. The result is still exact: the mean of dot
    products is the dot product of the means, and a head's factor is part of the scale of its scores.
    """

    def __init__(self, *, heads: int, gate: Gate, site: Site, dropout: float) -> None:
        super().__init__()
        self.site = site
        self.first, self.second = nn.Linear(heads, heads), nn.Linear(heads, heads)
        self.strength = nn.Parameter(torch.zeros(())) if gate == "residual" else None
        self.dropout = Dropout(dropout)

    def forward(self, m: Tensor) -> Tensor:
        """Return the factor of each head (B, H) from the heads' means `m` (B, H)."""
        x, y = self.first(m).sigmoid(), self.second(m).sigmoid()  # Eq. 2, 3
        z = (x.unsqueeze(2) * y.unsqueeze(1) / math.sqrt(m.shape[1])).softmax(-1)  # (B, H, H) Eq. 4
        weights: Tensor = self.dropout((z @ m.unsqueeze(2)).squeeze(2))  # M̃ Eq. 5
        return weights if self.strength is None else 1 + self.strength * weights

    def scale(self, q: Tensor, k: Tensor, valid: Tensor | None, scale: float) -> float | Tensor:
        """Return `scale` multiplied by the factor of each head, (B, H, 1, 1), or itself if `site` is `context`.

        `q` and `k` (B, H, L, d) are the queries and keys.
        """
        if self.site != "scores":
            return scale
        m = (token_mean(q, valid) * token_mean(k, valid)).sum(-1) * scale  # Eq. 1
        factors: Tensor = scale * self(m)[:, :, None, None].to(q.dtype)  # Eq. 6
        return factors

    def context(self, y: Tensor, valid: Tensor | None) -> Tensor:
        """Return `y` (B, H, L, d) multiplied by the factor of each head, or `y` itself if `site` is `scores`."""
        if self.site != "context":
            return y
        m = token_mean(y, valid).mean(-1)  # Eq. 1
        rescaled: Tensor = y * self(m)[:, :, None, None].to(y.dtype)  # Eq. 6
        return rescaled
