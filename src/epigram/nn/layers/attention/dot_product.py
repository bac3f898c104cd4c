"""Multi-head scaled dot-product self-attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from epigram.nn.layers.attention.head_to_head import HeadToHead
from epigram.nn.layers.attention.pos_weighting import Placement, weigh
from epigram.nn.layers.dropout import drop
from epigram.nn.layers.pooling import additive, key_mask


class DotProductAttention(nn.Module):
    """Self-attention softmax(Q Kᵀ / √d) V over valid keys, by the fused kernel: (B, L, D) → (B, L, D).

    `placement` says where part-of-speech weights enter (see `weigh`); `head_to_head` rescales the heads (HTH).
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        dropout: float,
        placement: Placement = "after",
        head_to_head: HeadToHead | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.placement = heads, dropout, placement
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head_to_head = head_to_head

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None = None, full: bool | None = None) -> Tensor:
        """Attend from every token of `x` (B, L, D) to the `valid` tokens (B, L), weighted by `weight` (B, L).

        `full` says whether all tokens are valid, if the host knows it.
        """
        q, k, v = self._project(x)
        y = self._attend(q, k, v, valid, weight, full)
        if self.head_to_head is not None:
            y = self.head_to_head.context(y, valid)
        out: Tensor = self.out(y.transpose(1, 2).reshape(x.shape))
        return out

    def attention_weights(
        self, x: Tensor, valid: Tensor, weight: Tensor | None = None, full: bool | None = None
    ) -> Tensor:
        """Return the weight of each key for each query, with part-of-speech weights and HTH's scores: (B, H, L, L)."""
        q, k, _ = self._project(x)
        return self._attend(q, k, one_hot_values(k), valid, weight, full)

    def _project(self, x: Tensor) -> Tensor:
        """Return queries, keys and values, 3 × (B, H, L, d)."""
        qkv: Tensor = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1)
        return qkv.permute(2, 0, 3, 1, 4)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor, weight: Tensor | None, full: bool | None
    ) -> Tensor:
        """Return the context (B, H, L, d) before HTH rescales it."""
        plain = 1 / math.sqrt(q.shape[-1])
        scale = plain if self.head_to_head is None else self.head_to_head.scale(q, k, valid, plain)
        mask = key_mask(valid, full)
        if weight is not None:
            k, v, mask = weigh(k, v, mask, weight, self.placement)
        return dot_product_attention(q, k, v, mask, scale=scale, dropout=self.dropout if self.training else 0.0)


def one_hot_values(key: Tensor) -> Tensor:
    """Return values (B, H, L, L) for `key` (B, H, L, d) whose weighted sum is the weights themselves."""
    return torch.eye(key.shape[2], dtype=key.dtype, device=key.device).expand(*key.shape[:2], -1, -1)


def dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scale: float | Tensor, dropout: float
) -> Tensor:
    """Return softmax(scale · q kᵀ) v (B, H, L, d), with `dropout` on the attention weights.

    `scale` is a number, or one for each head (B, H, 1, 1).
    """
    if is_unfused(q, dropout):
        return unfused_attention(q, k, v, mask, scale=scale, dropout=dropout)[0]
    if isinstance(scale, Tensor):
        q, scale = q * scale, 1.0
    return scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout, scale=scale)


def is_unfused(x: Tensor, dropout: float) -> bool:
    """Return whether attention on `x` builds the L×L matrix.

    On a CPU no fused kernel supports dropout, so PyTorch builds the matrix as well, and its own dropout then takes
    longer than everything else.
    """
    return dropout > 0 and not x.is_cuda


def unfused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scale: float | Tensor, dropout: float
) -> tuple[Tensor, Tensor]:
    """Return the context (B, H, L, d) and the attention weights softmax(scale · q kᵀ) (B, H, L, L).

    The context equals the fused kernel's, but the L×L matrix is built.
    """
    return attention_from_scores((q * scale) @ k.transpose(2, 3), v, mask, dropout)


def attention_from_scores(scores: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> tuple[Tensor, Tensor]:
    """Return softmax(`scores`) v (B, H, L, d) and the softmax, for `scores` (B, H, L, L) and `v` (B, H, L, d).

    `mask` is boolean, True for keys that may be attended, or floating point and added to the scores.
    """
    if mask is not None:
        scores = scores + additive(mask, scores.dtype)
    weights = scores.softmax(-1)
    return drop(weights, dropout) @ v, weights
