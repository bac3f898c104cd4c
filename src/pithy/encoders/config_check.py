"""Checks of a config.json before the transformers library builds an encoder from it.

The library can fetch code, replace weights or build something other than an encoder of texts, as config.json says. The
values that pithy supports are listed here; all others are refused.
"""

from __future__ import annotations

from typing import Any

from pithy.encoders.attention import FAMILIES
from pithy.errors import DataError
from pithy.values import shown

MODEL_TYPES = {
    *FAMILIES, "convbert", "data2vec-text", "deberta", "deberta-v2", "funnel", "ibert", "longformer", "luke",
    "mobilebert", "mpnet", "nomic_bert", "rembert", "roberta-prelayernorm", "roformer", "squeezebert", "xlm-roberta-xl",
    "xlnet", "xmod",
}  # fmt: skip
IMPLEMENTATIONS = (None, "eager", "sdpa")  # others are fetched from the hub, or need packages
CHOICES = [
    f"{start}{part}_implementation{end}"
    for start in ("", "_")
    for part in ("attn", "experts")
    for end in ("", "_internal")
]
MOST = {"num_hidden_layers": 1_000, "n_layer": 1_000, "num_layers": 1_000, "hidden_size": 1 << 20}
UNSUPPORTED = ("per_layer_config", "quantization_config", "transformers_weights")


def check_config(config: dict[str, Any], where: str) -> None:
    """Raise DataError for a `config` that is not of a supported encoder; `where` names it in the message."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in MODEL_TYPES:
        raise DataError(f"{where}: model_type is {shown(repr(family))}; supported: {', '.join(sorted(MODEL_TYPES))}")
    for key in CHOICES:
        if config.get(key) not in IMPLEMENTATIONS:
            raise DataError(f"{where}: {key} is {shown(repr(config[key]))}; supported: eager and sdpa")
    for key, most in MOST.items():
        if isinstance(config.get(key), int) and config[key] > most:
            raise DataError(f"{where}: {key} is {config[key]:.3g}; at most {most:,} is supported")
    for key in UNSUPPORTED:
        if config.get(key) is not None:
            raise DataError(f"{where}: {key} is not supported: save the model without it")
