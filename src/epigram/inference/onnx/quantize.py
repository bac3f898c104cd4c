"""Quantization of an ONNX graph to 8-bit weights, if that makes it faster than the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from epigram.core.errors import ParameterError
from epigram.evaluation.metrics.choice import choose_labels
from epigram.inference.onnx.graph import random_batch
from epigram.inference.predictors.runtimes import GraphModel
from epigram.models.precision import matmul_precision, prepare_for_inference, resolve_precision
from epigram.models.serialization import Saved
from epigram.nn.layers.types import Prediction, Tokens

OPERATOR_TYPES = ["MatMul", "Gemm", "Gather", "LSTM"]  # operator types; an 8-bit convolution is slower than a float one
BATCH = (32, 24)  # (texts, maximum tokens) of the timed batch
COMPARED = (256, 24)  # the same of the batch whose labels are compared
ROUNDS = 9
CPU = torch.device("cpu")

Forward = Callable[[Tokens], Prediction]


def quantize(saved: Saved, path: Path) -> str:
    """Quantize the weights of the graph `path` to 8 bits in place; activations are quantized per batch at run time.

    Seven of the eight bits are used, so that sums do not overflow on processors with or without VNNI. Returns how fast
    the graph is and how often it agrees with the model. The model of `saved` is for inference only from now on.
    Raises ParameterError if the graph is not faster on this machine than both the float32 graph and the model itself,
    with its default precision.
    """
    small = path.with_name(f"int8-{path.name}")
    write_quantized(path, small)
    own = own_predictions(saved)
    graphs = [GraphModel(each, multi=saved.model.multi) for each in (small, path)]
    fast, *slow = milliseconds(saved, *graphs, own)
    itself = f"the model itself ({resolve_precision('auto', CPU)})"
    times = f"{fast:.1f} ms for {BATCH[0]} texts, the fp32 graph {slow[0]:.1f} ms, {itself} {slow[1]:.1f} ms"
    if fast >= min(slow):
        slower = "the fp32 graph" if slow[0] <= slow[1] else itself
        raise ParameterError(
            f"int8 is not faster than {slower} for {saved.system} on this machine (int8 {times}); export without --int8"
        )
    same = same_labels(saved, graphs[0], own)
    small.replace(path)
    return (
        f"int8 takes {times}. It gives {same:.1%} of {COMPARED[0]} random texts the same label as the model itself; a "
        "model folder has no labelled texts, so measure the accuracy on yours."
    )


def write_quantized(path: Path, small: Path) -> None:
    """Write the graph `path` with 8-bit weights into the file `small`."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    full = onnx.load(path)
    del full.graph.value_info[:]  # drop the shapes of the traced batch; the quantizer infers its own
    quantize_dynamic(
        full,
        small,
        op_types_to_quantize=OPERATOR_TYPES,
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )


def own_predictions(saved: Saved) -> Forward:
    """Return the model as `Predictor` runs it, in bfloat16 where the hardware is fast in it."""
    model: Any = prepare_for_inference(saved.model)

    def forward(tokens: Tokens) -> Prediction:
        with torch.inference_mode(), matmul_precision("auto", CPU):
            predicted: Prediction = model(tokens)
        return predicted

    return forward


def milliseconds(saved: Saved, *models: Forward) -> list[float]:
    """Return the median run time of each of the `models` for the same batch, with their runs interleaved."""
    tokens = random_batch(saved, *BATCH)
    runs = [[_run_time(model, tokens) for model in models] for _ in range(ROUNDS + 1)]
    return [median(times) for times in zip(*runs[1:], strict=True)]  # the first run is a warm-up


def same_labels(saved: Saved, first: Forward, second: Forward) -> float:
    """Return the share of random texts to which both models give the same label, or the same set of labels."""
    tokens = random_batch(saved, *COMPARED)
    one, other = (_labels(saved, each(tokens).logits.float()) for each in (first, second))
    return float((one == other).all(1).float().mean())


def _labels(saved: Saved, logits: Tensor) -> Tensor:
    if saved.model.multi:
        return logits.sigmoid() > torch.tensor(saved.thresholds)
    return torch.from_numpy(choose_labels(logits.softmax(1).numpy(), saved.prices))[:, None]


def _run_time(model: Forward, tokens: Tokens) -> float:
    """Return the milliseconds of the second of two runs: in the first, threads of another library may still spin."""
    model(tokens)
    start = perf_counter()
    model(tokens)
    return 1000 * (perf_counter() - start)
