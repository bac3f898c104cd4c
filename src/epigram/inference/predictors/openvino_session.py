"""OpenVINO with the methods of a session of ONNX Runtime that exported models use."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray


def import_openvino() -> Any:
    """Return the module openvino, imported without its package that would send a record of the import."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None: it cannot be imported
    import openvino

    return openvino


class Port(NamedTuple):
    """Input or output of a network."""

    name: str


class OpenVinoSession:
    """Network in OpenVINO's format, on the CPU, with the number of threads that torch uses.

    OpenVINO chooses the precision of its products: bfloat16 on processors with instructions for it. If `exact` is true,
    it is float32.
    """

    def __init__(self, path: Path, *, exact: bool) -> None:
        settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
        if exact:
            settings["INFERENCE_PRECISION_HINT"] = "f32"
        core = import_openvino().Core()
        model = core.read_model(path)
        self.rows = indexed_rows(model)
        self.network = core.compile_model(model, "CPU", settings)
        self.own = local()  # the request of each thread, because a request serves one caller at a time

    def get_inputs(self) -> list[Port]:
        """Return the inputs of the network."""
        return [Port(port.get_any_name()) for port in self.network.inputs]

    def get_outputs(self) -> list[Port]:
        """Return the outputs of the network."""
        return [Port(port.get_any_name()) for port in self.network.outputs]

    def run(self, outputs: list[str], inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return copies of the `outputs` for a batch. Raises ValueError for ids that a table of the network lacks."""
        for name, rows in self.rows.items():
            if inputs[name].size and not 0 <= inputs[name].min() <= inputs[name].max() < rows:
                raise ValueError(f"{name} has ids outside of 0 to {rows - 1}")
        if not hasattr(self.own, "request"):
            self.own.request = self.network.create_infer_request()
        found = self.own.request.infer(inputs)
        return [found[name] for name in outputs]


def indexed_rows(model: Any) -> dict[str, int]:
    """Return the number of rows of the table that an input indexes; OpenVINO reads other indices as rows of zeros."""
    found = {}
    for port in model.inputs:
        for use in port.get_target_inputs():
            node = use.get_node()
            if node.get_type_name() == "Gather" and use.get_index() == 1:
                found[port.get_any_name()] = node.input_value(0).get_partial_shape()[0].get_length()
    return found
