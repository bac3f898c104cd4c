"""Encodings of texts; if one frozen encoder serves several folds, a text that they share is encoded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from epigram.core.files import atomic_folder, write_tensors
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier

Encode = Callable[[NeuralClassifier, TextBatches], NDArray[np.float64]]
Floats = NDArray[np.floating[Any]]
FILE = "encodings.safetensors"


class Encodings(NamedTuple):
    """Encodings of the training texts (N, D), of the held-out texts, and of the names of the labels (C, D)."""

    train: Floats
    dev: Floats | None = None
    names: Floats | None = None

    @classmethod
    def of(cls, encode: Encode, model: NeuralClassifier, train: TextBatches, dev: TextBatches | None) -> Encodings:
        """Return the encodings of `train`, of `dev` and of the label names of `train`, if there are any."""
        more = (None if texts is None else encode(model, texts) for texts in (dev, train.label_names))
        return cls(encode(model, train), *more)

    def write(self, folder: Path) -> None:
        """Write the encodings to `folder`, atomically."""
        arrays = {name: array for name, array in self._asdict().items() if array is not None}
        with atomic_folder(folder) as new:
            write_tensors(new / FILE, {name: torch.from_numpy(array) for name, array in arrays.items()})

    @classmethod
    def read(cls, folder: Path) -> Encodings:
        """Return the encodings that `write` wrote."""
        return cls(**{name: values.numpy() for name, values in load_file(folder / FILE).items()})


class KnownEncodings:
    """Encodings by the tokens of a text; they are forgotten when the weights of the model change."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._weights: dict[str, torch.Tensor] = {}
        self._found: dict[bytes, NDArray[np.float64]] = {}

    def of(self, model: NeuralClassifier, texts: TextBatches) -> NDArray[np.float64]:
        """Return the encodings (N, D) of `texts`."""
        weights = model.state_dict()
        if not _equal(weights, self._weights):
            self._weights, self._found = {name: _copy(value) for name, value in weights.items()}, {}
        keys = _keys(texts)
        new = np.array([row for row, key in enumerate(keys) if key not in self._found], np.int64)
        if len(new):
            encoded = self._encode(model, texts.part(new))
            self._found.update((keys[row], encoded[place]) for place, row in enumerate(new))
        return np.stack([self._found[key] for key in keys])


def _keys(texts: TextBatches) -> list[bytes]:
    """Return the token ids of each text, without padding, as bytes."""
    ids = texts.gather(np.arange(len(texts))).ids.cpu().numpy()
    return [row[:length].tobytes() for row, length in zip(ids, texts.lengths, strict=True)]


def _copy(weights: torch.Tensor) -> torch.Tensor:
    """Return a copy of weights that a training may change; codes of a table are never trained, and may be large."""
    return weights.clone() if weights.is_floating_point() else weights


def _equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
