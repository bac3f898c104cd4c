"""Peers of the inference benchmark: transformers' classifier in several programs, with texts in and answers out."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks import minilm
from benchmarks.inference_runners import (
    INPUTS,
    Batch,
    Runner,
    autocast,
    compiled_runner,
    dtype_of,
    onnx_runner,
    openvino_runner,
    write_graph,
)

EXPORTER = ("onnx", "onnxscript")  # packages that the export of a graph needs
PRECISIONS = ("fp32", "bf16 autocast", "bf16 weights") if minilm.FAST == "bf16" else ("fp32",)


class Peer(Protocol):
    """Program that runs the classifier."""

    def answer(self, texts: list[str] | str, batch_size: int = 1) -> object:
        """Predict `texts`, in the given order."""


class Pipeline:
    """transformers' pipeline in float32, under bfloat16 autocast, or with bfloat16 weights."""

    def __init__(self, folder: Path, precision: str) -> None:
        from transformers import pipeline

        self.precision = precision
        self.pipeline: Any = pipeline("text-classification", model=str(folder), dtype=dtype_of(precision))

    def answer(self, texts: list[str] | str, batch_size: int = 1) -> object:
        """Return the label and its probability for each text."""
        with autocast(self.precision):
            return self.pipeline(texts, truncation=True, max_length=minilm.LENGTH, batch_size=batch_size)


class Runtime:
    """Program that returns the logits of batches, with the tokenizer of the classifier in `folder`."""

    def __init__(self, folder: Path, run: Runner) -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.run = run

    def answer(self, texts: list[str] | str, batch_size: int = 1) -> NDArray[np.float32]:
        """Return the probabilities (N, C) of `texts`; a batch is padded to its longest text."""
        rows = [texts] if isinstance(texts, str) else texts
        parts = (rows[start : start + batch_size] for start in range(0, len(rows), batch_size))
        found: NDArray[np.float32] = softmax(np.concatenate(self.run(map(self._encode, parts))), axis=1)
        return found

    def _encode(self, texts: list[str]) -> Batch:
        encoded = self.tokenizer(texts, truncation=True, max_length=minilm.LENGTH, padding=True, return_tensors="np")
        return {name: encoded[name] for name in INPUTS}


def missing(*packages: str) -> str | None:
    """Return which of `packages` are not installed; None if all are."""
    absent = [name for name in packages if find_spec(name) is None]
    return f"{', '.join(absent)} not installed; run make peers" if absent else None


def no_compiler() -> str | None:
    """Return what torch.compile lacks; None if it can compile."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        return "no C++ compiler; install g++"
    header, libraries = Path(sysconfig.get_path("include")) / "Python.h", Path(torch.__file__).parent
    if " " in str(libraries):  # which it does not quote for the linker
        return f"it cannot link with {libraries}, whose name has a space"
    return None if header.exists() else f"no {header}; install Python's headers"


def runners(folder: Path, graph: Path, precisions: Sequence[str]) -> dict[str, dict[str, Callable[[], Runner]]]:
    """Return the programs that can run here, each with its precisions; print which ones cannot.

    The graph is written to the file `graph`.
    """
    if missing(*EXPORTER) is None:
        write_graph(folder, graph)
    openvino = dict.fromkeys("bf16" if "bf16" in precision else precision for precision in precisions)
    programs: dict[str, tuple[str | None, dict[str, Callable[[], Runner]]]] = {
        "torch.compile": (no_compiler(), {each: partial(compiled_runner, folder, each) for each in precisions}),
        "ONNX Runtime": (missing(*EXPORTER, "onnxruntime"), {"fp32": partial(onnx_runner, graph)}),
        "OpenVINO": (
            missing(*EXPORTER, "openvino"),
            {each: partial(openvino_runner, graph, each) for each in openvino},
        ),
    }
    for name, (reason, _) in programs.items():
        if reason:
            print(f"{name}: left out: {reason}", file=sys.stderr, flush=True)
    return {name: made for name, (reason, made) in programs.items() if not reason}


def peers(folder: Path, scratch: Path, precisions: Sequence[str] = PRECISIONS) -> dict[str, Peer]:
    """Return the peers by program and precision."""
    found: dict[str, Peer] = {f"pipeline(), {precision}": Pipeline(folder, precision) for precision in precisions}
    for program, made in runners(folder, scratch / "theirs.onnx", precisions).items():
        found |= {f"{program}, {precision}": Runtime(folder, make()) for precision, make in made.items()}
    return found
