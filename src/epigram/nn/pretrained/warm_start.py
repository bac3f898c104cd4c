"""Folder of an encoder that is pretrained on the user's texts, and initialization of a small encoder from it.

Files: about.json (steps, 0 if nothing was trained; checksums), config.json (settings), model.safetensors (weights). If
the encoder started from a checkpoint, the folder is one too, with the files of the checkpoint's tokenizer.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.config_types import has_type, shown
from epigram.core.errors import DataError
from epigram.core.files import read_json, sha256, write_json, write_tensors
from epigram.nn.encoders.transformer import TransformerConfig, TransformerEncoder
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec
from epigram.nn.pretrained.checkpoint import WEIGHTS

CHANGEABLE = {"dropout", "pos_weight", "head_to_head", "site"}  # settings that a model may change
CONFIG = "config.json"
CHECKED = (CONFIG, WEIGHTS)
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")  # files of a checkpoint's tokenizer
POSITIONS = "embedding.position.weight"


def write(
    folder: Path, encoder: Encoder, tokenizer: Path, about: dict[str, Any], checkpoint: str | None = None
) -> None:
    """Write a pretrained `encoder`, which started from the `checkpoint` if one is given, to `folder`.

    `tokenizer` is the view's tokenizer.json and `about` the further contents of about.json.
    """
    module: Any = encoder if checkpoint is None else encoder.backbone
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    write_tensors(folder / WEIGHTS, state)
    if checkpoint is None:
        write_json(folder / CONFIG, asdict(encoder.config))
    else:
        _copy_settings(checkpoint_folder(checkpoint), folder)
    digests = {name: sha256(folder / name) for name in CHECKED}
    write_json(folder / "about.json", {**about, "tokenizer": sha256(tokenizer), "sha256": digests})


def _copy_settings(checkpoint: Path, folder: Path) -> None:
    """Copy the config and the tokenizer of a checkpoint, as far as it has these files."""
    for name in (CONFIG, *TOKENIZER):
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, folder / name)


def find_pretrained(folder: Path, tokenizer: Path) -> Path | None:
    """Return `folder` if it holds a pretrained encoder for the view's tokenizer.json, None if nothing was pretrained.

    Raises InputMissingError if the folder does not exist, and DataError if the encoder has another vocabulary or its
    files were changed.
    """
    about = read_json(folder / "about.json")
    if not has_type(about, dict) or not has_type(about.get("steps"), int):
        raise DataError(f"{folder}/about.json has no number of steps; run dvc repro")
    if about["steps"] == 0:
        return None
    if about.get("tokenizer") != sha256(tokenizer):
        raise DataError(f"{folder} was pretrained with a different vocabulary than {tokenizer}; run dvc repro")
    if about.get("sha256") != {name: sha256(folder / name) for name in CHECKED if (folder / name).is_file()}:
        raise DataError(f"{folder} was changed after pretraining (checksums differ); delete it and run dvc repro")
    return folder


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the pretrained encoder in `folder`."""
    return dict(read_json(folder / CONFIG))


def build_pretrained(config: TransformerConfig, folder: Path, context: DataSpec) -> TransformerEncoder:
    """Build the encoder of `config` with the weights in `folder`; missing weights (gates, later positions) are new.

    Raises ValueError if a setting differs from the pretrained encoder's, unless it is in CHANGEABLE; DataError if the
    weights do not fit.
    """
    stored = read_settings(folder)
    for name, value in vars(config).items():
        if name not in CHANGEABLE and value != stored.get(name, value):
            raise ValueError(
                f"encoder.small.{name} is {value!r}, but the view's encoder was pretrained with {stored[name]!r}; "
                "remove it here, or set the same value under the view's pretrain"
            )
    encoder = TransformerEncoder(config, context)
    encoder.load_state_dict(_merged_weights(folder, encoder.state_dict()))
    return encoder


def _merged_weights(folder: Path, initial: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the `initial` weights updated from `folder`; of the positions, only the rows that both have."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = load_file(folder / WEIGHTS)
    except (FileNotFoundError, SafetensorError) as error:
        raise DataError(f"{folder}/{WEIGHTS} cannot be read ({shown(str(error))}); run dvc repro") from None
    if POSITIONS in state:
        rows = min(len(state[POSITIONS]), len(initial[POSITIONS]))
        state[POSITIONS] = torch.cat([state[POSITIONS][:rows], initial[POSITIONS][rows:]])
    unexpected = [name for name, tensor in state.items() if name not in initial or tensor.shape != initial[name].shape]
    if unexpected:
        raise DataError(f"{folder}/{WEIGHTS} does not match the view (weight {unexpected[0]}); run dvc repro")
    return {**initial, **state}
