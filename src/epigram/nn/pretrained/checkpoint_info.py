"""Architecture and sizes of a checkpoint, read from its folder, without loading it by the transformers library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from epigram.checkpoints.folders import awaits_download, checkpoint_folder
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_json
from epigram.nn.pretrained.checkpoint import check_config, weight_files

WIDTHS = ("hidden_size", "dim", "d_model")  # names differ between families
HEADS = ("num_attention_heads", "n_heads", "n_head")


class CheckpointInfo(NamedTuple):
    """Architecture of a checkpoint (`model_type`), its width and its number of heads."""

    model_type: str
    width: int
    heads: int


def read_checkpoint_info(checkpoint: str) -> CheckpointInfo | None:
    """Return the architecture and sizes of `checkpoint`, or None for one that the stage encode has yet to download.

    Raises the errors of `checkpoint_folder`, InputMissingError if the folder has no safetensors weights, DataError if
    its config.json describes no supported encoder or its index of weights is broken.
    """
    if awaits_download(checkpoint):
        return None
    folder = checkpoint_folder(checkpoint)
    config = read_json(folder / "config.json")
    values = config if isinstance(config, dict) else {}
    width, heads = size_of(values, WIDTHS), size_of(values, HEADS)
    if "model_type" not in values or not width or not heads:
        raise DataError(
            f"{folder}/config.json does not describe an encoder of the transformers library: model_type, hidden_size "
            "and num_attention_heads are required; set the view's checkpoint to the folder of such an encoder"
        )
    check_config(values, f"{folder}/config.json")
    if not weight_files(folder):
        raise InputMissingError(
            f"checkpoint {checkpoint!r} has no model.safetensors, the only supported format; save the model with "
            "its method save_pretrained"
        )
    return CheckpointInfo(values["model_type"], width, heads)


def size_of(config: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the first number in a checkpoint's `config` under one of the `names`; 0 if it has none."""
    return next((config[name] for name in names if isinstance(config.get(name), int)), 0)
