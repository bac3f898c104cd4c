"""transformers' classifier under torch.compile, in ONNX Runtime and in OpenVINO: batches in, logits out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.timing import cores
from epigram.inference.onnx.graph import AXES, OPSET
from epigram.inference.predictors.openvino_session import import_openvino

INPUTS = ("input_ids", "attention_mask")
Batch = dict[str, NDArray[np.int64]]  # of each of INPUTS, (B, L)
Logits = list[NDArray[np.float32]]  # of each batch, (B, C)
Runner = Callable[[Iterable[Batch]], Logits]


def autocast(precision: str) -> AbstractContextManager[Any]:
    """Return the autocast context of PyTorch's forward pass."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16 autocast" else nullcontext()


def dtype_of(precision: str) -> torch.dtype:
    """Return the type of PyTorch's weights."""
    return torch.bfloat16 if precision == "bf16 weights" else torch.float32


def classifier(folder: Path, precision: str = "fp32") -> Any:
    """Return transformers' classifier in `folder`."""
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype_of(precision)).eval()


def compiled_runner(folder: Path, precision: str) -> Runner:
    """Return the classifier under torch.compile, for any batch size and length."""
    options: dict[str, Any] = {"freezing": True}  # packs the weights: those in bfloat16 become twice as fast
    model: Any = torch.compile(classifier(folder, precision), dynamic=True, options=options)

    @torch.no_grad()
    def run(batches: Iterable[Batch]) -> Logits:
        with autocast(precision):
            inputs = ({name: torch.from_numpy(ids) for name, ids in batch.items()} for batch in batches)
            return [model(**batch).logits.float().numpy() for batch in inputs]

    return run


def write_graph(folder: Path, path: Path) -> None:
    """Export transformers' classifier to the ONNX file `path`, for any batch size and length."""
    model, batch = classifier(folder), {name: torch.ones(2, 8, dtype=torch.int64) for name in INPUTS}
    model.config.return_dict = False
    shapes = {name: dict(enumerate(AXES)) for name in INPUTS}
    program = torch.onnx.export(
        model, kwargs=batch, dynamic_shapes=shapes, opset_version=OPSET, output_names=["logits"], verbose=False
    )
    assert program is not None
    program.save(path, external_data=False)


def onnx_runner(graph: Path) -> Runner:
    """Return the graph in ONNX Runtime, in float32."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    return lambda batches: [session.run(["logits"], batch)[0] for batch in batches]


def openvino_runner(graph: Path, precision: str) -> Runner:
    """Return the graph in OpenVINO: one batch with the hint LATENCY, several at a time with the hint THROUGHPUT."""
    openvino = import_openvino()
    core, element = openvino.Core(), {"fp32": "f32", "bf16": "bf16"}[precision]
    model, settings = core.read_model(graph), {"INFERENCE_PRECISION_HINT": element, "INFERENCE_NUM_THREADS": cores()}
    latency = core.compile_model(model, "CPU", {**settings, "PERFORMANCE_HINT": "LATENCY"})
    throughput = core.compile_model(model, "CPU", {**settings, "PERFORMANCE_HINT": "THROUGHPUT"})
    queue, found = openvino.AsyncInferQueue(throughput), dict[int, NDArray[np.float32]]()
    queue.set_callback(lambda request, number: found.update({number: request.get_output_tensor().data.copy()}))

    def run(batches: Iterable[Batch]) -> Logits:
        left = iter(batches)
        first, second = next(left), next(left, None)
        if second is None:
            return [latency(first)["logits"]]
        found.clear()
        for number, batch in enumerate(chain((first, second), left)):
            queue.start_async(batch, number)
        queue.wait_all()
        return [found[number] for number in range(len(found))]

    return run
