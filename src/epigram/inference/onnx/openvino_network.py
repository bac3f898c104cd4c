"""Conversion of an ONNX graph to OpenVINO's format."""

from __future__ import annotations

from pathlib import Path

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.inference.onnx.graph import check_graph, export_error
from epigram.inference.predictors.openvino_session import import_openvino
from epigram.inference.predictors.runtimes import open_graph
from epigram.models.serialization import NETWORK, Saved


def convert(saved: Saved, graph: Path) -> None:
    """Replace the ONNX file `graph` by OpenVINO's model.xml and model.bin, with weights of 32 bits.

    Raises ParameterError if OpenVINO cannot convert or run the graph, or if its output in float32 differs from the
    model's.
    """
    openvino, network = import_openvino(), graph.with_name(NETWORK)
    try:
        openvino.save_model(openvino.Core().read_model(graph), network, compress_to_fp16=False)
        model = open_graph(network, multi=saved.model.multi, exact=True)
    except (DataError, RuntimeError) as error:
        raise export_error(saved, f"OpenVINO cannot run its graph ({shown(str(error))})") from error
    graph.unlink()
    check_graph(saved, model)
