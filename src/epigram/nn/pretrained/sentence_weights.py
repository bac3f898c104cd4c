"""Weights of a Universal Sentence Encoder, from the file of its checkpoint."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.errors import DataError, InputMissingError
from epigram.nn.layers.embedding import GROUPS

FILE = "weights.npz"
ORDERS = (2, 3, 5)
READ_ERRORS = (KeyError, OSError, ValueError, zipfile.BadZipFile)


def read_weights(folder: Path, rows: int) -> dict[str, Tensor]:
    """Return the state of a `SentenceEncoder` with the first `rows` rows of the table of token vectors.

    Raises InputMissingError if the file is missing, DataError if it is not such a checkpoint.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: check the view's checkpoint")
    return _read(path, rows, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)  # every fold of a cross-validation builds the encoder
def _read(path: Path, rows: int, changed: int) -> dict[str, Tensor]:
    """Read the weights; `changed` is the time of the file's last change, in nanoseconds."""
    try:
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251
            state = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in _state(file, rows).items()}
    except READ_ERRORS as error:
        raise DataError(f"{path} is not a checkpoint of a Universal Sentence Encoder ({error})") from None
    return state


def _state(file: Any, rows: int) -> dict[str, NDArray[Any]]:
    state = {
        "table.codes": _table(file, rows),
        "table.scale": file["scale"],
        "table.offset": file["lo"],
        "project.weight": np.concatenate([file[f"proj{n}"] for n in ORDERS], 1).T,
        "project.bias": np.concatenate([file[f"proj_b{n}"] for n in ORDERS]),
        "branch_norm.weight": np.concatenate([file[f"ln_g{n}"] for n in ORDERS]),
        "branch_norm.bias": np.concatenate([file[f"ln_b{n}"] for n in ORDERS]),
        "norm.weight": file["ln_g"],
        "norm.bias": file["ln_b"],
        "combine.weight": file["cnn_W"].T,
        "combine.bias": file["cnn_b"],
        "first.hidden.weight": file["d0"].T,
        "first.out.weight": file["d1"].T,
        "first.shortcut.weight": file["p1"].T,
        "second.hidden.weight": file["d2"].T,
        "second.out.weight": file["d3"].T,
        "second.shortcut.weight": file["p3"].T,
    }
    for place, n in enumerate(ORDERS):
        for layer in (1, 2):
            part = f"branches.{place}.convolutions.{layer - 1}.product"
            state[f"{part}.weight"], state[f"{part}.bias"] = file[f"w{layer}_{n}"].T, file[f"b{layer}_{n}"]
    return state


def _table(file: Any, rows: int) -> NDArray[np.uint8]:
    """Return the table (rows, E). Its row v is row v // 17 of the block v mod 17, and blocks are numbered from 1."""
    blocks = [file[f"q{number}"] for number in range(1, GROUPS + 1)]
    table: NDArray[np.uint8] = np.stack(blocks, 1).reshape(-1, blocks[0].shape[1])
    if len(table) < rows:
        raise ValueError(f"{len(table)} token vectors, but the view has {rows} tokens")
    return table[:rows]
