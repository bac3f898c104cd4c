"""Part-of-speech weights: in attention without building its matrix (Transformer-F, Eq. 5), and on token vectors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from epigram.nn.layers.types import DataSpec, Tokens

Placement = Literal["after", "inside", "log"]
VectorWeight = Literal["none", "embedding"]  # setting `pos_weight` of an encoder without attention


def pos_table(setting: Placement | VectorWeight, context: DataSpec) -> Tensor | None:
    """Return the weight of every token of the vocabulary (V,), or None if `setting` is `none`.

    Raises ValueError if the view has no part-of-speech table.
    """
    if setting == "none":
        return None
    if context.pos_weight is None:
        raise ValueError(f"encoder.pos_weight is {setting!r}, but the view has no part-of-speech table; set it to none")
    return context.pos_weight


def token_weights(table: Tensor | None, tokens: Tokens) -> Tensor | None:
    """Return w (B, L): the weight of each token's word, or else its own in `table` (V,); None without `table`."""
    if table is None:
        return None
    own = table[tokens.ids]
    if tokens.word_weight is None:
        return own
    return torch.where(tokens.word_weight < 0, own, tokens.word_weight.to(own.dtype))


def reads_pos_weight(model: nn.Module) -> bool:
    """Return whether a part of `model` applies part-of-speech weights: it has a buffer named pos_weight."""
    return any(name.rpartition(".")[2] == "pos_weight" for name, _ in model.named_buffers())


def weigh(
    key: Tensor, value: Tensor, mask: Tensor | None, weight: Tensor, placement: Placement
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Apply token weights w (B, L) to the key, value or mask of scaled dot-product attention with scores S.

    `key` and `value` are (B, H, L, d). `mask` is bool (B, 1, 1, L), (B, 1, L, L) for windowed attention, or None.
    Returns the key, value and mask to use instead. Each placement is exact:
    after:  softmax(S) · diag(w) · V = softmax(S) · (w ⊙ V)            Eq. 5; the weights are not renormalised
    inside: softmax(S ∘ w) · V with (S ∘ w)_ij = q_i · (w_j k_j)
    log:    softmax(S + log w) · V, the renormalised form; a constant w has no effect
    """
    column = weight[:, None, :, None].to(value.dtype)  # (B, 1, L, 1)
    if placement == "after":
        return key, column * value, mask
    if placement == "inside":
        return column * key, value, mask
    bias = weight[:, None, None, :].to(key.dtype).clamp(min=1e-9).log()  # (B, 1, 1, L)
    # the lowest finite number instead of −∞, which gives NaN in a row that may attend to no key
    return key, value, bias if mask is None else torch.where(mask, bias, torch.finfo(bias.dtype).min)


class PosScaling(nn.Module):
    """Product of each token's vector and its part-of-speech weight, w_i x_i: (B, L, D) → (B, L, D).

    It is this project's own use of the weights, for encoders without attention. Setting `none` changes nothing.
    """

    def __init__(self, setting: VectorWeight, context: DataSpec) -> None:
        super().__init__()
        self.register_buffer("pos_weight", pos_table(setting, context))
        self.pos_weight: Tensor | None

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        """Scale the vectors `x` (B, L, D) of `tokens`."""
        weight = token_weights(self.pos_weight, tokens)
        return x if weight is None else x * weight.unsqueeze(-1).to(x.dtype)
