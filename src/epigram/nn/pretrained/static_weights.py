"""Table of token vectors of a Model2Vec model, from the files of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_json

FILE, CONFIG = "model.safetensors", "config.json"
VECTORS, WEIGHTS, MAPPING = "embeddings", "weights", "mapping"  # tensors of the file; the last two are optional


def read_normalize(folder: Path) -> bool:
    """Return whether the model gives its texts vectors of length 1; Model2Vec's default is False."""
    normalize = read_json(folder / CONFIG).get("normalize", False)
    if not isinstance(normalize, bool):
        raise DataError(f"{folder / CONFIG}: normalize is {shown(repr(normalize))}; expected true or false")
    return normalize


def check_file(folder: Path) -> Path:
    """Return the path of the weights. Raises InputMissingError if they are missing, or in another format."""
    if not (folder / FILE).is_file():
        raise InputMissingError(
            f"{folder / FILE} is missing, which is the only supported format of a Model2Vec model; save the model "
            "with its method save_pretrained"
        )
    return folder / FILE


def read_table(folder: Path, tokens: int) -> Tensor:
    """Return the vector of each token times its weight, (V, D) in float32, for a view with `tokens` tokens (V).

    `mapping` (V,), if the file has it, is the row of `embeddings` (R, D) for each token. Raises InputMissingError if
    the file is missing, DataError if it is not such a table or one of another tokenizer.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = check_file(folder)
    try:
        return _table(load_file(path), tokens)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} is not a table of a Model2Vec model ({shown(reason)})") from None


def _table(tensors: dict[str, Tensor], tokens: int) -> Tensor:
    """Return the table. Raises ValueError if a tensor is missing or has the wrong type, shape or values."""
    if VECTORS not in tensors:
        raise ValueError(f"no tensor {VECTORS}")
    table = tensors[VECTORS]
    if table.ndim != 2 or not table.numel() or not (table.is_floating_point() or table.dtype == torch.int8):
        raise ValueError(f"{VECTORS} has {table.dtype} {tuple(table.shape)}; expected numbers (rows, width)")
    rows = tensors.get(MAPPING)
    if rows is not None:
        if (
            rows.is_floating_point()
            or rows.ndim != 1
            or not len(rows)
            or not 0 <= int(rows.min()) <= int(rows.max()) < len(table)
        ):
            raise ValueError(f"{MAPPING} has other values than the {len(table)} rows of {VECTORS}")
        table = table[rows.long()]
    if len(table) != tokens:
        raise ValueError(f"{len(table)} token vectors, but its tokenizer.json has {tokens} tokens")
    weights = tensors.get(WEIGHTS)
    if weights is not None:
        if not weights.is_floating_point() or weights.shape != (tokens,):
            raise ValueError(f"{WEIGHTS} has {weights.dtype} {tuple(weights.shape)}; expected a number for each token")
        table = table.float() * weights.float().unsqueeze(1)
    if not table.float().isfinite().all():
        raise ValueError("a number is NaN or infinite")
    return table.float()
