"""Co-attention of a text and a label sequence (CNLE, Liu et al., 2021): each attends to the other.

X (B, L, D) is the text and Λ (B, M, D) the label sequence of M labels. A Λ shared by the whole batch has B = 1.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from epigram.nn.layers.attention.dot_product import one_hot_values
from epigram.nn.layers.dropout import Dropout


class CrossAttention(nn.Module):
    """Multi-head cross-attention, with p heads: (B, L, D), (B, M, D) → (B, L, D).

    [H_1; …; H_p] W_O with H_i = softmax(Q W_i^Q (K W_i^K)ᵀ / √d_p) K W_i^V.
    """

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend from `x` (B, L, D) to the tokens of `other` (B, M, D) that `mask` (B, 1, 1, M) allows: (B, L, D)."""
        q, k, v = self._project(x, other)
        y = scaled_dot_product_attention(q, k, v, mask)
        out: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out

    def attention_weights(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weight of each token of `other` for each token of `x`, given as in `forward`: (B, H, L, M)."""
        q, k, _ = self._project(x, other)
        return scaled_dot_product_attention(q, k, one_hot_values(k), mask)

    def _project(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (B, H, L, d), keys and values (B, H, M, d)."""
        batch = max(x.shape[0], other.shape[0])
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.key_value(other).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = (t.expand(batch, -1, -1, -1) for t in (q, k, v))
        return q, k, v


class Fusion(nn.Module):
    """Update of one sequence from the other: LN(FFN(MultiHead(x, other, other)) + x), (B, L, D)."""

    def __init__(self, *, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = CrossAttention(width=width, heads=heads)
        self.hidden = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        """Fuse `x` (B, L, D) with the tokens of `other` (B, M, D) that `mask` (B, 1, 1, M) allows."""
        out: Tensor = self.norm(self.hidden(self.attention(x, other, mask)) + x)
        return out


class CoAttention(nn.Module):
    """Co-attention that returns X_fuse and Λ_fuse; each side has its own parameters."""

    def __init__(self, *, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.text = Fusion(width=width, heads=heads, hidden=hidden, dropout=dropout)
        self.labels = Fusion(width=width, heads=heads, hidden=hidden, dropout=dropout)

    def forward(self, text: Tensor, labels: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Fuse `text` (B, L, D), whose tokens `mask` (B, 1, 1, L) allows, and `labels` (B, M, D); return both."""
        return self.text(text, labels), self.labels(labels, text, mask)
