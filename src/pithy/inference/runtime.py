"""An exported model, which ONNX Runtime runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pithy.errors import InputMissingError
from pithy.layers.types import Prediction, Tokens


class OnnxModel:
    """A graph in the place of a model: tokens to prediction, on the CPU, with as many threads as torch has.

    Its inputs are named as the parts of `Tokens`, its outputs as those of `Prediction`. Raises InputMissingError
    without onnxruntime.
    """

    training = False

    def __init__(self, path: Path, *, multi: bool) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise InputMissingError(
                f"{path} needs ONNX Runtime, which is not installed: pip install 'pithy[onnx]'"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.enable_mem_pattern = False  # which pays for batches of one shape only
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # torch wants the same cores
        self.multi = multi
        self.session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def __call__(self, tokens: Tokens) -> Prediction:
        """Logits (B, C) of a batch (B, L), and (B, L, S) of its tokens' labels where the model gives them."""
        found = self.session.run(self.outputs, {name: getattr(tokens, name).numpy() for name in self.inputs})
        return Prediction(**{name: torch.from_numpy(out) for name, out in zip(self.outputs, found, strict=True)})
