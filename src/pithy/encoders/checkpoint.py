"""The weights of a BERT's checkpoint, read from its folder without the transformers library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from pithy.encoders.bert import Bert, BertConfig
from pithy.encoders.config_check import check_config
from pithy.errors import DataError
from pithy.files import read_json
from pithy.values import fits, shown

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

Named = tuple[str, Callable[[], Tensor]]  # a weight is read when it is called


def bert_in(folder: Path) -> Bert | None:
    """The encoder of `folder` with its weights; None where it is none of `BertConfig`, or is not whole.

    Raises ValueError as `filled` does, DataError for a config or an index that is refused, and what the file's own
    reader raises.
    """
    values = read_json(folder / "config.json") if (folder / "config.json").is_file() else None
    if isinstance(values, dict):
        check_config(values, f"{folder}/config.json")
    config = BertConfig.of(values) if isinstance(values, dict) else None
    files = _files(folder)
    return None if config is None or not files else filled(config, _tensors(files))


def filled(config: BertConfig, named: Iterable[Named]) -> Bert:
    """The encoder of `config` with the weights `named`, in float32; those of further heads are left unread.

    Raises ValueError for one that is missing or has another shape.
    """
    model = Bert(config)
    wanted, found = model.state_dict(), {}
    for name, read in named:
        if (own := _own(name)) in wanted:
            found[own] = read().to(torch.float32, copy=True)  # nothing stays in the file's own memory
    for name, weight in wanted.items():
        if name not in found:
            raise ValueError(f"its weights lack {name}")
        if found[name].shape != weight.shape:
            raise ValueError(f"{name} is {tuple(found[name].shape)}, and by config.json {tuple(weight.shape)}")
    model.load_state_dict(found, assign=True)
    return model


def _own(name: str) -> str:
    """The name of a weight in `Bert`: that of a model with a head, or of early checkpoints, is another."""
    name = name.removeprefix("bert.")
    for old, new in LEGACY.items():
        name = name.replace(old, new)
    return name


def _files(folder: Path) -> list[Path]:
    """The files that hold the weights: one, or those of an index; none where there are others than safetensors."""
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    return [folder / name for name in shards(folder)]


def shards(folder: Path) -> list[str]:
    """Return the weight files that the index of `folder` lists, none where it has no index.

    Raises DataError for an index that lists anything but safetensors files of the folder itself.
    """
    if not (folder / INDEX).is_file():
        return []
    index = read_json(folder / INDEX)
    listed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(listed, dict) or not fits(listed, dict[str, str]):
        raise DataError(f"{folder}/{INDEX} has no weight_map of names: download the checkpoint again")
    names = sorted(set(listed.values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise DataError(
                f"{folder}/{INDEX} lists {shown(name)}; expected the name of a safetensors file of the same folder"
            )
    return names


def _tensors(files: list[Path]) -> Iterator[Named]:
    from safetensors import safe_open

    for path in files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  it is no mapping
                yield name, partial(file.get_tensor, name)
