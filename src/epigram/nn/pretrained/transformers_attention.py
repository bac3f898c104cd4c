"""Custom attention for the encoders of the transformers library, registered through its attention interface.

It adds head-to-head attention (HTH), part-of-speech weights (Transformer-F), or both.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from epigram.nn.layers.attention import dot_product_attention, unfused_attention
from epigram.nn.layers.head_to_head import Gate, HeadToHead, Site
from epigram.nn.layers.masking import key_mask
from epigram.nn.layers.pos_weighting import Placement, weigh
from epigram.nn.transformers_adapter import FAMILIES, build_boolean_mask, is_bidirectional

NAME = "epigram"
DROPOUT = 0.1  # of M̃ (HTH, Eq. 5); BERT's dropout rate


def check_replaceable(family: str, **settings: str) -> None:
    """Raise ValueError if one of `settings` is not `none` and the attention of `family` cannot be replaced."""
    for name, value in settings.items():
        if value != "none" and family not in FAMILIES:
            raise ValueError(
                f"encoder.{name} is {value!r}, but the attention of {family} cannot be replaced; "
                f"set it to none, or use a checkpoint of one of these families: {', '.join(FAMILIES)}"
            )


def install_attention(
    backbone: Any, *, gate: Gate | Literal["none"], site: Site, placement: Placement | Literal["none"]
) -> None:
    """Make every self-attention of the transformers model `backbone` use `attend`, with these settings."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, build_mask)
    set_attention_parts(backbone, gate=gate, site=site, placement=placement)
    backbone.set_attn_implementation(NAME)


def set_attention_parts(
    backbone: Any, *, gate: Gate | Literal["none"], site: Site, placement: Placement | Literal["none"]
) -> None:
    """Set the attributes that `attend` reads on every self-attention of `backbone`: `placement` and `head_to_head`.

    With a `gate`, `head_to_head` is a new HeadToHead. The modules are created on the CPU after the checkpoint's weights
    are loaded, so that all their weights are initialized.
    """
    config = backbone.config
    for module in list(backbone.modules()):
        if type(module).__name__ == FAMILIES[config.model_type]:
            heads, module.placement = config.num_attention_heads, placement
            module.head_to_head = (
                None if gate == "none" else HeadToHead(heads=heads, gate=gate, site=site, dropout=DROPOUT)
            )


def build_mask(*, mask_function: Any, attention_mask: Tensor | None, **size: Any) -> Tensor | None:
    """Return the mask of the keys that may be attended, or None if all may be.

    The mask is boolean, True for keys that may be attended: (B, 1, 1, L), or (B, 1, L, L) with a window (ModernBERT's
    local layers). A window that is at least as wide as the texts is ignored.
    """
    window = size.get("local_size")
    if is_bidirectional(mask_function) or (window is not None and size["kv_length"] <= window):
        return None if attention_mask is None else key_mask(attention_mask.bool())
    return build_boolean_mask(mask_function=mask_function, attention_mask=attention_mask, **size)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    output_attentions: bool = False,
    token_weight: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as the interface requires: `query`, `key`, `value` (B, H, L, d) → context (B, L, H, d) and weights.

    The weights (B, H, L, L) are None unless `output_attentions` is set. The scores (HTH, Eq. 1) are averaged over all
    pairs of tokens that are not padding, even with sliding-window attention. `token_weight` (B, L) are
    part-of-speech weights, which the returned weights include.
    """
    part: Any = module.head_to_head
    valid = None if attention_mask is None else attention_mask.any(2).squeeze(1)  # (B, L)
    if part is not None:
        query = part.query(query, key, valid, scaling)
    if token_weight is not None:
        placement: Any = module.placement
        key, value, attention_mask = weigh(key, value, attention_mask, token_weight, placement)
    if output_attentions:
        y, weights = unfused_attention(query, key, value, attention_mask, scale=scaling, dropout=dropout)
        if token_weight is not None and module.placement == "after":
            weights = weights * token_weight[:, None, None, :]
    else:
        y, weights = dot_product_attention(query, key, value, attention_mask, scale=scaling, dropout=dropout), None
    if part is not None:
        y = part.context(y, valid)
    return y.transpose(1, 2).contiguous(), weights
