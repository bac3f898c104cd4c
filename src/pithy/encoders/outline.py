"""What can be told of a checkpoint before it is loaded: by its folder alone, without the library."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pithy.encoders.config_check import check_config
from pithy.errors import DataError, InputMissingError
from pithy.files import read_json

WIDTHS = ("hidden_size", "dim", "d_model")  # as the families name them
HEADS = ("num_attention_heads", "n_heads", "n_head")


class Outline(NamedTuple):
    """The family of a checkpoint and the sizes of its layers."""

    family: str
    width: int
    heads: int


def outlined(checkpoint: str) -> Outline | None:
    """The outline of the folder `checkpoint`; None for a name of the hub, which is only asked for when it is read.

    Raises InputMissingError where there is no such folder or it has no weights, DataError where its config.json is not
    that of an encoder.
    """
    folder = Path(checkpoint).expanduser()
    if not folder.is_dir():
        if checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1:
            raise InputMissingError(f"checkpoint {checkpoint!r} is not a folder: check the path")
        return None
    config = read_json(folder / "config.json")
    told = config if isinstance(config, dict) else {}
    width, heads = (next((told[name] for name in names if name in told), 0) for names in (WIDTHS, HEADS))
    if "model_type" not in told or not width or not heads:
        raise DataError(
            f"{folder}/config.json is not that of an encoder of the transformers library (model_type, hidden_size, "
            "num_attention_heads): set the view's checkpoint to the folder of one"
        )
    check_config(told, f"{folder}/config.json")
    if not any(folder.glob("model*.safetensors")):
        raise InputMissingError(
            f"checkpoint {checkpoint!r} has no model.safetensors: the model's save_pretrained writes one; "
            "other formats are not read"
        )
    return Outline(told["model_type"], width, heads)
