"""Quantization of an ONNX graph to 8-bit weights, if that makes it faster."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter

from epigram.core.errors import ParameterError
from epigram.inference.graph import random_batch
from epigram.inference.runtime import OnnxModel
from epigram.models.serialization import Saved
from epigram.nn.layers.types import Tokens

OPERATOR_TYPES = ["MatMul", "Gemm", "Gather", "LSTM"]  # operator types; an 8-bit convolution is slower than a float one
BATCH = (32, 24)  # (texts, maximum tokens) of the timed batch
ROUNDS = 9


def quantize(saved: Saved, path: Path) -> None:
    """Quantize the weights of the graph `path` to 8 bits in place; activations are quantized per batch at run time.

    Seven of the eight bits are used, so that sums do not overflow on processors with or without VNNI.
    Raises ParameterError if the graph does not become faster on this machine.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    full, small = onnx.load(path), path.with_suffix(".int8")
    del full.graph.value_info[:]  # drop the shapes of the traced batch; the quantizer infers its own
    quantize_dynamic(
        full,
        small,
        op_types_to_quantize=OPERATOR_TYPES,
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )
    fast, slow = milliseconds(saved, small, path)
    if fast >= slow:
        raise ParameterError(
            f"int8 is slower than fp32 for {saved.system} on this machine ({fast:.2g} ms instead of {slow:.2g} ms); "
            "export without --int8"
        )
    small.replace(path)


def milliseconds(saved: Saved, *paths: Path) -> list[float]:
    """Return the median run time of each graph for the same batch, with the runs of the graphs interleaved."""
    tokens, models = random_batch(saved, *BATCH), [OnnxModel(path, multi=saved.model.multi) for path in paths]
    runs = [[_run_time(model, tokens) for model in models] for _ in range(ROUNDS + 1)]
    return [median(times) for times in zip(*runs[1:], strict=True)]  # the first run is a warm-up


def _run_time(model: OnnxModel, tokens: Tokens) -> float:
    start = perf_counter()
    model(tokens)
    return 1000 * (perf_counter() - start)
