"""Parts of the transformers library that its documentation does not cover, in one place.

A new version may change them; tests/contract/test_adapters_transformers.py then names the missing part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

# Families whose attention can be replaced: model_type and the class that holds q, k and v (MacBERT is a bert). The
# public attention interface replaces the function, but says neither which classes call it nor which families do.
FAMILIES = {
    "bert": "BertSelfAttention",
    "roberta": "RobertaSelfAttention",
    "xlm-roberta": "XLMRobertaSelfAttention",
    "camembert": "CamembertSelfAttention",
    "ernie": "ErnieSelfAttention",
    "albert": "AlbertAttention",
    "electra": "ElectraSelfAttention",
    "distilbert": "DistilBertSelfAttention",
    "modernbert": "ModernBertAttention",
}

# Names of the query and key layers in these classes. ModernBERT has one layer for queries, keys and values.
QUERY_KEY = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "ernie", "albert", "electra"), ("query", "key")),
    "distilbert": ("q_lin", "k_lin"),
}


def is_bidirectional(mask_function: Callable[..., Any]) -> bool:
    """Return whether `mask_function` lets every token attend every token."""
    from transformers.masking_utils import bidirectional_mask_function

    return mask_function is bidirectional_mask_function


def build_boolean_mask(**arguments: Any) -> Tensor | None:
    """Return the library's boolean mask (B, 1, L, L), True for keys that may be attended."""
    from transformers.masking_utils import sdpa_mask

    mask: Tensor | None = sdpa_mask(**arguments)
    return mask


@contextmanager
def unfused_attention(backbone: Any) -> Iterator[None]:
    """Let `backbone` return its attention weights during the block, which a fused kernel does not.

    The name of its implementation has a public setter, but no public getter.
    """
    name = getattr(backbone.config, "_attn_implementation", None)
    if name != "sdpa":
        yield
        return
    backbone.set_attn_implementation("eager")
    try:
        yield
    finally:
        backbone.set_attn_implementation(name)
