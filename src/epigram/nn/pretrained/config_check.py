"""Checks of a config.json before the transformers library builds an encoder from it.

A config.json can make the library download code, replace weights or build something other than a text encoder. Only the
values listed here are supported; all others are rejected.
"""

from __future__ import annotations

from typing import Any

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.nn.transformers_adapter import FAMILIES

MODEL_TYPES = {
    *FAMILIES, "convbert", "data2vec-text", "deberta", "deberta-v2", "funnel", "ibert", "longformer", "luke",
    "mobilebert", "mpnet", "nomic_bert", "rembert", "roberta-prelayernorm", "roformer", "squeezebert", "xlm-roberta-xl",
    "xlnet", "xmod",
}  # fmt: skip
IMPLEMENTATIONS = (None, "eager", "sdpa")  # others are downloaded from the hub or need packages
IMPLEMENTATION_KEYS = [
    f"{start}{part}_implementation{end}"
    for start in ("", "_")
    for part in ("attn", "experts")
    for end in ("", "_internal")
]
MAX_SIZES = {"num_hidden_layers": 1_000, "n_layer": 1_000, "num_layers": 1_000, "hidden_size": 1 << 20}
UNSUPPORTED = ("per_layer_config", "quantization_config", "transformers_weights")


def check_config(config: dict[str, Any], where: str) -> None:
    """Raise DataError if `config` does not describe a supported encoder; `where` names the file in the message."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in MODEL_TYPES:
        raise DataError(f"{where}: model_type is {shown(repr(family))}; supported: {', '.join(sorted(MODEL_TYPES))}")
    for key in IMPLEMENTATION_KEYS:
        if config.get(key) not in IMPLEMENTATIONS:
            raise DataError(f"{where}: {key} is {shown(repr(config[key]))}; supported: eager and sdpa")
    for key, limit in MAX_SIZES.items():
        if isinstance(config.get(key), int) and config[key] > limit:
            raise DataError(f"{where}: {key} is {config[key]:.3g}; at most {limit:,} is supported")
    for key in UNSUPPORTED:
        if config.get(key) is not None:
            raise DataError(f"{where}: {key} is not supported; save the model without it")
