"""Part-of-speech weights in an attention (Transformer-F, Eq. 5), without building the attention matrix."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from pithy.layers.types import Context

Placement = Literal["after", "inside", "log"]


def pos_table(setting: Placement | Literal["none"], context: Context) -> Tensor | None:
    """The weight of every token of the vocabulary (V,) where the `setting` asks for one.

    Raises ValueError where the view has no table.
    """
    if setting == "none":
        return None
    if context.pos_weight is None:
        raise ValueError(f"encoder.pos_weight was {setting!r}: the view has no part-of-speech table; set it to none")
    return context.pos_weight


def weigh(
    key: Tensor, value: Tensor, mask: Tensor | None, weight: Tensor, placement: Placement
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Move token weights w (B, L) into the key, the value or the mask of a scaled dot-product attention.

    `key`, `value` (B, H, L, d); `mask` bool (B, 1, 1, L), (B, 1, L, L) in a window, or None. Each placement is exact:
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
    # the lowest number in place of −∞, which is no number in a row of padding that may attend nowhere
    return key, value, bias if mask is None else torch.where(mask, bias, torch.finfo(bias.dtype).min)
