"""An exported linear SVM, run by ONNX Runtime on n-gram counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.errors import DataError
from epigram.core.files import read_json
from epigram.core.ragged import Ragged
from epigram.inference.runtime import OnnxModel
from epigram.models.serialization import NGRAMS
from epigram.nn.layers.ngrams import count_known, max_n
from epigram.nn.layers.types import Tokens


class NgramModel(OnnxModel):
    """ONNX graph of a linear SVM, with the list of n-grams that it counts."""

    required: ClassVar[set[str]] = {"ngrams", "counts"}
    optional: ClassVar[set[str]] = set()

    def __init__(self, path: Path, *, multi: bool) -> None:
        super().__init__(path, multi=multi)
        self.keys, self.vocabulary, self.orders = read_ngrams(path.with_name(NGRAMS))

    def graph_inputs(self, tokens: Tokens) -> dict[str, NDArray[Any]]:
        """Return the indices of the known n-grams and their counts, one row per text, padded with counts of 0."""
        row, ngram, count = (part.numpy() for part in count_known(tokens, self.keys, self.vocabulary, self.orders))
        lengths = np.bincount(row, minlength=len(tokens.ids))
        ngrams = np.zeros((len(lengths), max(1, lengths.max())), dtype=np.int64)
        counts = np.zeros_like(ngrams)
        position = row, Ragged.from_lengths(ngram, lengths).positions()
        ngrams[position], counts[position] = ngram, count
        return {"ngrams": ngrams, "counts": counts}


def open_graph(path: Path, *, multi: bool) -> OnnxModel:
    """Load the exported model whose graph is the file `path`."""
    return (NgramModel if path.with_name(NGRAMS).exists() else OnnxModel)(path, multi=multi)


def read_ngrams(path: Path) -> tuple[Tensor, int, tuple[int, int]]:
    """Return the sorted keys (F,) of the n-grams in `path`, the vocabulary size, and the lowest and highest order.

    Raises DataError for a file that `export` has not written.
    """
    stored = read_json(path)
    try:
        vocabulary, orders = stored["vocabulary"], [int(order) for order in stored["ngrams"]]
        if orders != list(range(orders[0], orders[-1] + 1)) or not 1 <= orders[0] <= orders[-1] <= max_n(vocabulary):
            raise ValueError("orders")
        parts = [_keys(rows, n, vocabulary) for n, rows in zip(orders, stored["ngrams"].values(), strict=True)]
        keys = np.concatenate(parts)
        if (np.diff(keys) <= 0).any():
            raise ValueError("order of the n-grams")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise DataError(f"{path} is not a valid list of n-grams; export the model again") from None
    return torch.from_numpy(keys), vocabulary, (orders[0], orders[-1])


def _keys(rows: list[list[int]], n: int, vocabulary: int) -> NDArray[np.int64]:
    """Return the keys of n-grams given as lists of token ids. Raises ValueError for invalid ids."""
    ids = np.array(rows) if rows else np.zeros((0, n), dtype=np.int64)
    if ids.dtype.kind != "i" or ids.shape != (len(rows), n) or not ((ids >= 0) & (ids < vocabulary)).all():
        raise ValueError("token ids")
    key = np.zeros(len(ids), dtype=np.int64)
    for column in ids.T:
        key = key * (vocabulary + 1) + column + 1
    return key
