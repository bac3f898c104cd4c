"""An exported model, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.config_types import shown
from epigram.core.errors import DataError, is_out_of_memory
from epigram.core.extras import require
from epigram.nn.layers.types import Prediction, Tokens

OUTPUTS = {"logits", "tokens"}  # fields of Prediction; a graph may have further outputs


class OnnxModel:
    """ONNX graph that is called like a model, on the CPU, with the number of threads that torch uses.

    Inputs are named after the fields of `Tokens`, outputs after those of `Prediction`. Raises MissingPackageError if
    onnxruntime is not installed and DataError for a file that is not such a graph.
    """

    training = False
    required: ClassVar[set[str]] = {"ids", "valid"}
    optional: ClassVar[set[str]] = {"characters", "word_weight"}

    def __init__(self, path: Path, *, multi: bool) -> None:
        require(str(path), "onnx", "onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.enable_mem_pattern = False  # only helps if all batches have the same shape
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # torch uses the same cores
        options.log_severity_level = 4  # warnings would print names of the graph without escaping control characters
        self.path, self.multi = path, multi
        try:
            self.session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library's exceptions have no common base class
            raise DataError(f"{path} is not a graph that ONNX Runtime can run ({shown(str(error))})") from None
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
                f"{self.path} fails in ONNX Runtime ({shown(str(error))}); export the model again"
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
