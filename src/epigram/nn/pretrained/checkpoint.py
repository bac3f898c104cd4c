"""Loading of a BERT checkpoint from its folder without the transformers library, and checks of its config.json.

A config.json can make the library download code, replace weights or build something other than a text encoder. Only the
values listed here are supported; all others are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from epigram.core.config_types import has_type, shown
from epigram.core.errors import DataError
from epigram.core.files import read_json
from epigram.nn.pretrained.bert import Bert, BertConfig
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


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

NamedWeight = tuple[str, Callable[[], Tensor]]  # a weight's name and the function that reads it


def load_bert(folder: Path) -> Bert | None:
    """Load the encoder of `folder`; return None if it is not a supported BERT or has no safetensors files.

    Raises ValueError as `bert_with_weights` does, DataError for an unsupported config.json or a broken index, and
    the errors of the safetensors reader.
    """
    values = read_json(folder / "config.json") if (folder / "config.json").is_file() else None
    if isinstance(values, dict):
        check_config(values, f"{folder}/config.json")
    config = BertConfig.of(values) if isinstance(values, dict) else None
    files = weight_files(folder)
    return None if config is None or not files else bert_with_weights(config, named_weights(files))


def bert_with_weights(config: BertConfig, named: Iterable[NamedWeight]) -> Bert:
    """Build the encoder of `config` with the weights `named`, in float32; weights that it does not have are not read.

    Raises ValueError if a weight is missing or has the wrong shape.
    """
    model = Bert(config)
    expected, found = model.state_dict(), {}
    for name, read in named:
        if (bert_name := _bert_weight_name(name)) in expected:
            found[bert_name] = read().to(torch.float32, copy=True)  # a copy does not keep the file mapped
    for name, weight in expected.items():
        if name not in found:
            raise ValueError(f"weight {name} is missing")
        if found[name].shape != weight.shape:
            raise ValueError(
                f"weight {name} has shape {tuple(found[name].shape)}; config.json requires {tuple(weight.shape)}"
            )
    model.load_state_dict(found, assign=True)
    return model


def _bert_weight_name(name: str) -> str:
    """Return the name in `Bert` of a weight from a model with a head or from an early checkpoint."""
    return _current_name(name.removeprefix("bert."))


def _current_name(name: str) -> str:
    for old, new in LEGACY.items():
        name = name.replace(old, new)
    return name


HEADS = {  # weights of the masked-language head: names of BERT, ERNIE and RoBERTa → names here
    "cls.predictions.transform.dense": "transform.0",
    "cls.predictions.transform.LayerNorm": "transform.2",
    "cls.predictions": "",
    "lm_head.dense": "transform.0",
    "lm_head.layer_norm": "transform.2",
    "lm_head": "",
}


def load_masked_head(folder: Path) -> dict[str, Tensor]:
    """Return the weights of the head of masked language modelling in `folder`, in float32; none if it has no head."""
    found = {}
    for name, read in named_weights(weight_files(folder)):
        part, _, kind = _current_name(name).rpartition(".")
        if part in HEADS:
            found[f"{HEADS[part]}.{kind}".lstrip(".")] = read().to(torch.float32, copy=True)
    return found


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of the weights: one file, or the files of the index, or none."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    return [folder / name for name in shards(folder)]


def shards(folder: Path) -> list[str]:
    """Return the names of the weight files in the index of `folder`, or an empty list if it has no index.

    Raises DataError if the index lists anything except safetensors files of the same folder.
    """
    if not (folder / INDEX).is_file():
        return []
    index = read_json(folder / INDEX)
    listed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(listed, dict) or not has_type(listed, dict[str, str]):
        raise DataError(f"{folder}/{INDEX} has no weight_map from names to files; download the checkpoint again")
    names = sorted(set(listed.values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise DataError(
                f"{folder}/{INDEX} lists {shown(name)}; expected the name of a safetensors file of the same folder"
            )
    return names


def named_weights(files: list[Path]) -> Iterator[NamedWeight]:
    """Yield the weights in safetensors `files`, each of which is read when it is asked for."""
    from safetensors import safe_open

    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  not a mapping
                yield name, partial(file.get_tensor, name)
