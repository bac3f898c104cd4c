"""Exported models in ONNX Runtime and in OpenVINO: networks, and the n-gram counts of linear models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.arrays import Ragged
from epigram.core.config_types import shown
from epigram.core.errors import DataError, is_out_of_memory
from epigram.core.extras import require
from epigram.core.files import read_json
from epigram.inference.predictors.openvino_session import OpenVinoSession
from epigram.models.serialization import NGRAMS
from epigram.nn.layers.ngrams import SPELLED, Counted, count_known, max_n
from epigram.nn.layers.types import Prediction, Tokens

OUTPUTS = {"logits", "tokens"}  # fields of Prediction; a graph may have further outputs


def _onnx_session(path: Path, *, exact: bool) -> Any:
    """Return a session of ONNX Runtime, which computes in float32 whether `exact` is true or not."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.enable_mem_pattern = False  # only helps if all batches have the same shape
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # torch uses the same cores
    options.log_severity_level = 4  # warnings would print names of the graph without escaping control characters
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Runtime(NamedTuple):
    """A library that runs graphs: its name, the extra and the package that have it, and how it opens a file."""

    name: str
    extra: str
    package: str
    session: Callable[..., Any]


RUNTIMES = {  # keys: suffixes of the graph file
    ".onnx": Runtime("ONNX Runtime", "onnx", "onnxruntime", _onnx_session),
    ".xml": Runtime("OpenVINO", "openvino", "openvino", OpenVinoSession),
}


class GraphModel:
    """Exported graph that is called like a model, on the CPU, with the number of threads that torch uses.

    Inputs are named after the fields of `Tokens`, outputs after the fields of `Prediction`. If `exact` is true, all
    products are in float32. Raises MissingPackageError if the runtime is not installed and DataError for a file that is
    not such a graph.
    """

    training = False
    own_threads = True  # a session uses all of its threads for each batch
    required: ClassVar[set[str]] = {"ids", "valid"}
    optional: ClassVar[set[str]] = {"characters", "word_weight"}

    def __init__(self, path: Path, *, multi: bool, exact: bool = False) -> None:
        self.path, self.multi, self.runtime = path, multi, RUNTIMES[path.suffix]
        require(str(path), self.runtime.extra, self.runtime.package)
        try:
            self.session = self.runtime.session(path, exact=exact)
        except Exception as error:  # the library's exceptions have no common base class
            raise DataError(f"{path} is not a graph that {self.runtime.name} can run ({shown(str(error))})") from None
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs() if one.name in OUTPUTS]
        if not self.required <= set(self.inputs) <= self.required | self.optional or "logits" not in self.outputs:
            raise DataError(f"{path} is not the graph of an epigram model; export the model again")

    def __call__(self, tokens: Tokens) -> Prediction:
        """Return the logits (B, C) of a batch (B, L), and token logits (B, L, S) if the model labels tokens.

        Raises DataError if the graph fails on the batch.
        """
        try:
            outputs = self.session.run(self.outputs, self.graph_inputs(tokens))
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise DataError(
                f"{self.path} fails in {self.runtime.name} ({shown(str(error))}); export the model again"
            ) from None
        self._check(outputs, tokens)
        return Prediction(**{name: torch.from_numpy(out) for name, out in zip(self.outputs, outputs, strict=True)})

    def _check(self, outputs: list[Any], tokens: Tokens) -> None:
        """Raise DataError for outputs of the wrong type or shape."""
        shapes = {"logits": tuple(tokens.ids.shape[:1]), "tokens": tuple(tokens.ids.shape)}
        for name, out in zip(self.outputs, outputs, strict=True):
            if not isinstance(out, np.ndarray) or out.dtype != np.float32 or out.shape[:-1] != shapes[name]:
                raise DataError(f"{self.path} returns {name} of an unexpected shape or type; export the model again")

    def graph_inputs(self, tokens: Tokens) -> dict[str, NDArray[Any]]:
        """Return the inputs of the graph for a batch."""
        return {name: getattr(tokens, name).numpy() for name in self.inputs}


class NgramModel(GraphModel):
    """Graph of a linear SVM, with the list of n-grams that it counts; computed in float32, like the SVM itself."""

    required: ClassVar[set[str]] = {"ngrams", "counts"}
    optional: ClassVar[set[str]] = set()

    def __init__(self, path: Path, *, multi: bool, exact: bool = False) -> None:
        super().__init__(path, multi=multi, exact=True)
        self.keys, self.counted = read_ngrams(path.with_name(NGRAMS))
        if (len(self.keys) and not self._has_ngram(len(self.keys) - 1)) or self._has_ngram(len(self.keys)):
            raise DataError(
                f"{path.with_name(NGRAMS)} does not have the n-grams of {path.name}; export the model again"
            )

    def _has_ngram(self, index: int) -> bool:
        """Return whether the graph has weights of the n-gram `index`; ONNX Runtime cannot tell their number."""
        ngrams = np.array([[index]], dtype=np.int64)
        try:
            self.session.run(self.outputs, {"ngrams": ngrams, "counts": np.ones_like(ngrams)})
        except Exception as error:  # the library's exceptions have no common base class
            if is_out_of_memory(error):
                raise
            return False
        return True

    def graph_inputs(self, tokens: Tokens) -> dict[str, NDArray[Any]]:
        """Return the indices of the known n-grams and their counts, one row per text, padded with counts of 0."""
        row, ngram, count = (part.numpy() for part in count_known(tokens, self.keys, self.counted))
        lengths = np.bincount(row, minlength=len(tokens.ids))
        ngrams = np.zeros((len(lengths), max(1, lengths.max())), dtype=np.int64)
        counts = np.zeros_like(ngrams)
        position = row, Ragged.from_lengths(ngram, lengths).positions()
        ngrams[position], counts[position] = ngram, count
        return {"ngrams": ngrams, "counts": counts}


def open_graph(path: Path, *, multi: bool, exact: bool = False) -> GraphModel:
    """Load the exported model whose graph is the file `path`; see `GraphModel`."""
    return (NgramModel if path.with_name(NGRAMS).exists() else GraphModel)(path, multi=multi, exact=exact)


def read_ngrams(path: Path) -> tuple[Tensor, Counted]:
    """Return the sorted keys (F,) of the n-grams in `path`, and which n-grams are counted.

    Raises DataError for a file that `export` has not written.
    """
    stored = read_json(path)
    try:
        orders, keys = _read(stored["ngrams"], stored["vocabulary"], 0)
        counted = Counted(stored["vocabulary"], orders)
        if "characters" in stored:
            spelled, more = _read(stored["characters"], stored["alphabet"], 1)
            counted = counted._replace(alphabet=stored["alphabet"], spelled=spelled)
            keys = np.concatenate([more + SPELLED, keys])
        if (np.diff(keys) <= 0).any():
            raise ValueError("order of the n-grams")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise DataError(f"{path} is not a valid list of n-grams; export the model again") from None
    return torch.from_numpy(keys), counted


def _read(lists: dict[str, Any], size: int, first: int) -> tuple[tuple[int, int], NDArray[np.int64]]:
    """Return the lowest and highest order and the keys of lists of n-grams whose ids are from `first` on."""
    orders = [int(order) for order in lists]
    if orders != list(range(orders[0], orders[-1] + 1)) or not 1 <= orders[0] <= orders[-1] <= max_n(size):
        raise ValueError("orders")
    parts = [_keys(rows, n, size, first) for n, rows in zip(orders, lists.values(), strict=True)]
    return (orders[0], orders[-1]), np.concatenate(parts)


def _keys(rows: list[list[int]], n: int, size: int, first: int) -> NDArray[np.int64]:
    """Return the keys of n-grams given as lists of ids. Raises ValueError for invalid ids."""
    ids = (np.array(rows) if rows else np.zeros((0, n), dtype=np.int64)) - first
    if ids.dtype.kind != "i" or ids.shape != (len(rows), n) or not ((ids >= 0) & (ids < size)).all():
        raise ValueError("ids")
    key = np.zeros(len(ids), dtype=np.int64)
    for column in ids.T:
        key = key * (size + 1) + column + 1
    return key
