"""Multi-head scaled dot-product self-attention (Vaswani et al., 2017)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from pithy.layers.masking import key_mask
from pithy.layers.weighting import Placement, weigh


class DotProductAttention(nn.Module):
    """softmax(Q Kᵀ / √d) V over valid keys, on the fused kernel: (B, L, D) → (B, L, D)."""

    def __init__(self, *, width: int, heads: int, dropout: float, placement: Placement = "after") -> None:
        super().__init__()
        self.heads, self.dropout, self.placement = heads, dropout, placement
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None = None) -> Tensor:
        """Attend from every token of `x` (B, L, D) to the `valid` ones (B, L), weighed by `weight` (B, L)."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # 3 × (B, H, L, d)
        mask = key_mask(valid)
        if weight is not None:
            k, v, mask = weigh(k, v, mask, weight, self.placement)
        y = scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout if self.training else 0.0)
        out: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return out
