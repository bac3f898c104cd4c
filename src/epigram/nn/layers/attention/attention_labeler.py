"""Multi-head attention labeler (MHAL, Eq. 3–8) and the auxiliary losses of its heads (Eq. 11–13)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from epigram.nn.layers.autocast import OutputLinear, output_product
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.initialization import glorot
from epigram.nn.layers.pooling import masked_max, masked_mean

DefaultTarget = Literal["one", "smoothed"]


@dataclass(frozen=True)
class LabelerOutput:
    """Outputs of H heads: queries q, token scores a, attention weights α over a text's tokens, text scores o."""

    queries: Tensor  # (B, H, d)
    tokens: Tensor  # (B, L, H)
    shares: Tensor  # (B, L, H)
    texts: Tensor  # (B, H)


class AttentionLabeler(nn.Module):
    """Attention with one head per token label: states (B, L, D) → scores of each label for each token and the text.

    `inputs` is D, `hidden` the width of z, rounded up to a multiple of `heads`, and `text_hidden` the width of W_s.
    `dropout` is the dropout rate of the attention weights α.
    """

    def __init__(self, *, inputs: int, hidden: int, text_hidden: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        width = -(-hidden // heads) * heads
        self.heads = heads
        self.join = nn.Linear(inputs, width)  # W_z
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.text_hidden = nn.Linear(width // heads, text_hidden)  # W_s
        self.text_out = OutputLinear(text_hidden, 1)  # W_o
        self.dropout = Dropout(dropout)
        glorot(self)

    def forward(self, states: Tensor, valid: Tensor) -> LabelerOutput:
        """Compute the heads' outputs from the `states` (B, L, D) of the `valid` tokens (B, L)."""
        z = self.join(states).tanh()  # Eq. 3
        q, k, v = (layer(z).tanh() for layer in (self.query, self.key, self.value))
        queries = self.split(masked_mean(q, valid))  # (B, H, d), Eq. 4
        k, v = self.split(k), self.split(v)  # (B, L, H, d)
        a = output_product(partial(torch.einsum, "bhd,blhd->blh"), queries, k)  # Eq. 5
        # softmax(log σ) is σ / Σ σ without NaN when every σ underflows
        alpha = logsigmoid(a).masked_fill(~valid.unsqueeze(-1), float("-inf")).softmax(1)  # Eq. 6
        s = torch.einsum("blh,blhd->bhd", self.dropout(alpha).to(v.dtype), v)  # Eq. 7
        o = self.text_out(self.text_hidden(s).tanh()).squeeze(-1)  # (B, H), Eq. 8
        return LabelerOutput(queries, a, alpha, o)

    def split(self, x: Tensor) -> Tensor:
        """Split `x` (…, H·d) into heads: (…, H, d)."""
        return x.view(*x.shape[:-1], self.heads, -1)


def max_per_class(scores: Tensor, groups: Tensor) -> Tensor:
    """Return the maximum of `scores` (…, H) over the heads of each class, given by `groups` (C, H) bool: (…, C).

    Eq. 12.
    """
    return scores.unsqueeze(-2).masked_fill(~groups, float("-inf")).amax(-1)


def attention_loss(
    p: Tensor,
    valid: Tensor,
    labels: Tensor,
    groups: Tensor,
    smoothing: float,
    outcomes: int,
    default_target: DefaultTarget = "one",
) -> Tensor:
    """Return (max_i t̃*_{i,k} − q'_k)² + (max_i t̃_{i,d} − 1)² for each text: (B,).  Eq. 11, 12.

    `p` (B, L, H) are the token label probabilities t̃ with the default label d first, `labels` (B,) the text labels k,
    `groups` (C, H) the heads of each class, `smoothing` ε and `outcomes` K. The loss asks each text for one token of
    its own label, with target q'_k = 1 − ε + ε/K, and one token of the default label, with target 1. With
    `default_target` `smoothed`, this target is q'_d as printed: q'_k for texts of the default class, otherwise ε/K.
    """
    low = smoothing / outcomes
    high = 1 - smoothing + low  # q'_k
    peaks = masked_max(p, valid)  # (B, H); maxima over tokens and over heads commute
    own = max_per_class(peaks, groups).gather(1, labels.unsqueeze(1)).squeeze(1)
    default = 1.0 if default_target == "one" else torch.where(groups[labels, 0], high, low)
    return (own - high) ** 2 + (peaks[:, 0] - default) ** 2


def query_similarity(queries: Tensor, *, absolute: bool) -> Tensor:
    """Return R_q, the mean cosine over pairs of a text's `queries` (B, H, d): (B,).  Eq. 13.

    If `absolute` is true, average the absolute value of the cosines.
    """
    unit = normalize(queries, dim=-1)
    first, second = torch.triu_indices(unit.shape[1], unit.shape[1], 1, device=unit.device)
    cosines = (unit[:, first] * unit[:, second]).sum(-1)
    return (cosines.abs() if absolute else cosines).mean(1)
