"""Part-of-speech weights in an attention (Transformer-F, Eq. 5), without building the attention matrix."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Placement = Literal["after", "inside", "log"]


def weigh(
    key: Tensor, value: Tensor, mask: Tensor | None, weight: Tensor, placement: Placement
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Move token weights w (B, L) into the key, the value or the mask of a scaled dot-product attention.

    `key`, `value` (B, H, L, d); `mask` (B, 1, 1, L) bool or None. Each placement is exact:
    after:  softmax(S) · diag(w) · V = softmax(S) · (w ⊙ V)                      Eq. 5; the sum is not renormalised
    inside: softmax(S ∘ w) · V, and (S ∘ w)_ij = q_i · (w_j k_j)
    log:    softmax(S + log w) · V, the renormalised form: unchanged by a constant w
    """
    column = weight[:, None, :, None].to(value.dtype)  # (B, 1, L, 1)
    if placement == "after":
        return key, column * value, mask
    if placement == "inside":
        return column * key, value, mask
    bias = weight[:, None, None, :].to(key.dtype).clamp(min=1e-9).log()  # (B, 1, 1, L)
    return key, value, bias if mask is None else bias.masked_fill(~mask, float("-inf"))
