"""The multi-head attention labeler (MHAL, Eq. 3–8) and what its heads are taught beside the labels (Eq. 11–13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from pithy.layers.initialization import glorot
from pithy.layers.masking import masked_max, masked_mean


@dataclass(frozen=True)
class Evidence:
    """What H heads say of a batch: `queries` q (B, H, d), `tokens` a (B, L, H), `texts` o (B, H)."""

    queries: Tensor
    tokens: Tensor
    texts: Tensor


class AttentionLabeler(nn.Module):
    """One attention head a token label: states (B, L, D) → evidence for each label in each token and in the text.

    `hidden` is the width of z, rounded up to a multiple of the heads; `text_hidden` that of W_s.
    """

    def __init__(self, *, inputs: int, hidden: int, text_hidden: int, heads: int) -> None:
        super().__init__()
        width = -(-hidden // heads) * heads
        self.heads = heads
        self.join = nn.Linear(inputs, width)  # W_z
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.text_hidden = nn.Linear(width // heads, text_hidden)  # W_s
        self.text_out = nn.Linear(text_hidden, 1)  # W_o
        glorot(self)

    def forward(self, states: Tensor, valid: Tensor) -> Evidence:
        """The evidence in the `valid` tokens' `states`."""
        z = self.join(states).tanh()  # Eq. 3
        q, k, v = (layer(z).tanh() for layer in (self.query, self.key, self.value))
        queries = self.split(masked_mean(q, valid))  # (B, H, d), Eq. 4
        k, v = self.split(k), self.split(v)  # (B, L, H, d)
        a = torch.einsum("bhd,blhd->blh", queries, k)  # Eq. 5
        # softmax(log σ) is σ / Σ σ, and stays a number where every σ is tiny
        alpha = logsigmoid(a).masked_fill(~valid.unsqueeze(-1), float("-inf")).softmax(1)  # Eq. 6
        s = torch.einsum("blh,blhd->bhd", alpha.to(v.dtype), v)  # Eq. 7
        o = self.text_out(self.text_hidden(s).tanh()).squeeze(-1)  # (B, H), Eq. 8
        return Evidence(queries, a, o)

    def split(self, x: Tensor) -> Tensor:
        """Each head's part of `x` (…, H·d): (…, H, d)."""
        return x.view(*x.shape[:-1], self.heads, -1)


def strongest(scores: Tensor, groups: Tensor) -> Tensor:
    """The highest of the heads' `scores` (…, H) that stand for each class, by `groups` (C, H) bool: (…, C).  Eq. 12."""
    return scores.unsqueeze(-2).masked_fill(~groups, float("-inf")).amax(-1)


def attention_loss(p: Tensor, valid: Tensor, labels: Tensor, groups: Tensor, smoothing: float) -> Tensor:
    """(max_i t̃*_{i,k} − q'_k)² + (max_i t̃_{i,d} − 1)² of each text: (B,).  Eq. 11, 12.

    `p` (B, L, H) are the tokens' label probabilities t̃, the default d first, `labels` (B,) the texts' k. A text should
    hold a token of its own label, q'_k = 1 − ε + ε/C, and one of the default label.
    """
    smooth = 1 - smoothing + smoothing / len(groups)  # q'_k
    peaks = masked_max(p, valid)  # (B, H); the maximum over tokens and that over heads change places
    own = strongest(peaks, groups).gather(1, labels.unsqueeze(1)).squeeze(1)
    return (own - smooth) ** 2 + (peaks[:, 0] - 1) ** 2


def query_likeness(queries: Tensor, *, absolute: bool) -> Tensor:
    """R_q, the mean cosine over pairs of a text's `queries` (B, H, d), or of its absolute value: (B,).  Eq. 13."""
    unit = normalize(queries, dim=-1)
    first, second = torch.triu_indices(unit.shape[1], unit.shape[1], 1, device=unit.device)
    cosines = (unit[:, first] * unit[:, second]).sum(-1)
    return (cosines.abs() if absolute else cosines).mean(1)
