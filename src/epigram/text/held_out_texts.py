"""Keys of the texts that score the models of a view: pretraining leaves these texts out of its further ones.

A key is a hash of 8 bytes. With it, pretraining needs neither the texts themselves nor the library that reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from epigram.core.errors import DataError
from epigram.core.npy_files import read_array

KEYS = "held_out.npy"


def text_key(text: str) -> int:
    """Return the key of a text, regardless of the whitespace around it."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(), digest_size=8).digest(), "little")


def write_keys(folder: Path, batches: Iterable[Sequence[str]]) -> None:
    """Write the keys (K,) of the different texts of all `batches` into the `folder` of a view."""
    keys = {text_key(text) for texts in batches for text in texts}
    np.save(folder / KEYS, np.array(sorted(keys), np.uint64))


def read_keys(folder: Path) -> set[int]:
    """Return the keys in the `folder` of a view. Raises InputMissingError or DataError."""
    keys = read_array(folder / KEYS)
    if keys.dtype != np.uint64 or keys.ndim != 1:
        raise DataError(f"{folder / KEYS} contains {keys.dtype} {keys.shape}; expected uint64 (K,): run dvc repro")
    return set(keys.tolist())
