"""Custom attention for the encoders of the transformers library, registered through its attention interface.

It adds head-to-head attention (HTH) or correlation attention (Transformer-F), and part-of-speech weights
(Transformer-F).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn

from epigram.nn.layers.attention.correlation import Correlation, standardize
from epigram.nn.layers.attention.dot_product import dot_product_attention, unfused_attention
from epigram.nn.layers.attention.head_to_head import Gate, HeadToHead, Site
from epigram.nn.layers.attention.pos_weighting import Placement, weigh
from epigram.nn.transformers_adapter import FAMILIES, QUERY_KEY, build_boolean_mask, is_bidirectional

NAME = "epigram"
DROPOUT = 0.1  # rate on M̃ (HTH, Eq. 5), as in BERT


def check_replaceable(family: str, **settings: str) -> None:
    """Raise ValueError if one of `settings` is not `none` and the attention of `family` cannot be replaced."""
    for name, value in settings.items():
        if value != "none" and family not in FAMILIES:
            raise ValueError(
                f"encoder.{name} is {value!r}, but the attention of {family} cannot be replaced; "
                f"set it to none, or use a checkpoint of one of these families: {', '.join(FAMILIES)}"
            )


def check_correlation(model_type: str) -> None:
    """Raise ValueError if correlation attention cannot replace the attention of encoders of `model_type`."""
    if model_type not in QUERY_KEY:
        reason = "cannot be replaced"
        if model_type in FAMILIES:
            reason = "encodes positions in queries and keys, which correlation attention does not have"
        raise ValueError(
            f"encoder.attention is 'correlation', but the attention of {model_type} {reason}; "
            f"set it to dot, or use a checkpoint of one of these families: {', '.join(QUERY_KEY)}"
        )


def install_attention(
    backbone: Any,
    *,
    gate: Gate | Literal["none"],
    site: Site,
    placement: Placement | Literal["none"],
    correlation: Callable[[], Correlation] | None = None,
) -> None:
    """Make every self-attention of the transformers model `backbone` use `attend`, with these settings."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, build_mask)
    set_attention_parts(backbone, gate=gate, site=site, placement=placement, correlation=correlation)
    backbone.set_attn_implementation(NAME)


def set_attention_parts(
    backbone: Any,
    *,
    gate: Gate | Literal["none"],
    site: Site,
    placement: Placement | Literal["none"],
    correlation: Callable[[], Correlation] | None = None,
) -> None:
    """Set the attributes that `attend` reads on every self-attention: `placement`, `head_to_head`, `correlation`.

    With a `gate`, `head_to_head` is a new HeadToHead. With `correlation`, which builds that part, the layers of queries
    and keys are removed. The modules are created on the CPU after the checkpoint's weights are loaded, so that all
    their weights are initialized.
    """
    config = backbone.config
    for module in list(backbone.modules()):
        if type(module).__name__ == FAMILIES[config.model_type]:
            heads, module.placement = config.num_attention_heads, placement
            module.head_to_head = (
                None if gate == "none" else HeadToHead(heads=heads, gate=gate, site=site, dropout=DROPOUT)
            )
            module.correlation = None if correlation is None else correlation()
            for name in QUERY_KEY[config.model_type] if correlation is not None else ():
                setattr(module, name, nn.Identity())  # `attend` gets the token vectors


def build_mask(*, mask_function: Any, attention_mask: Tensor | None, **size: Any) -> Tensor | None:
    """Return the mask of the keys that may be attended, or None without an `attention_mask` (B, L).

    The mask is boolean, True for keys that may be attended: (B, 1, 1, L), or (B, 1, L, L) with a window (ModernBERT's
    local layers). A window that is at least as wide as the texts is ignored.
    """
    window = size.get("local_size")
    if is_bidirectional(mask_function) or (window is not None and size["kv_length"] <= window):
        return None if attention_mask is None else attention_mask.bool()[:, None, None, :]
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
    part-of-speech weights, which the returned weights include. Correlation attention has one head: the context is
    (B, L, 1, D).
    """
    part: Any = module.head_to_head
    valid = None if attention_mask is None else attention_mask.any(2).squeeze(1)  # (B, L)
    if module.correlation is not None:
        query, key, value = _correlated(module.correlation, query, value, valid)
        scaling = 1.0
    scale = scaling if part is None else part.scale(query, key, valid, scaling)
    if token_weight is not None:
        placement: Any = module.placement
        key, value, attention_mask = weigh(key, value, attention_mask, token_weight, placement)
    if output_attentions:
        y, weights = unfused_attention(query, key, value, attention_mask, scale=scale, dropout=dropout)
        if token_weight is not None and module.placement == "after":
            weights = weights * token_weight[:, None, None, :]
    else:
        y, weights = dot_product_attention(query, key, value, attention_mask, scale=scale, dropout=dropout), None
    if part is not None:
        y = part.context(y, valid)
    return y.transpose(1, 2).contiguous(), weights


def _correlated(correlation: Any, query: Tensor, value: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the query, key and value (B, 1, L, D) of correlation attention with one head.

    `query` (B, H, L, d) holds the token vectors, since the query layer is removed. All heads of `value` (B, H, L, d)
    get the same attention weights.
    """
    x, value = (part.transpose(1, 2).flatten(2) for part in (query, value))  # (B, L, D)
    unit = standardize(x, valid).to(value.dtype)  # under autocast, cast once for all products
    return correlation.query(unit).unsqueeze(1), unit.unsqueeze(1), value.unsqueeze(1)
