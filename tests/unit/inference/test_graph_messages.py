"""Tests that ONNX Runtime prints nothing itself: names in a graph may contain terminal escape sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from epigram.inference.predictors.runtimes import OnnxModel

onnx = pytest.importorskip("onnx", reason="requires the extra onnx")


def test_a_graph_that_the_runtime_warns_of_shows_no_escape_sequence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The constant exceeds the 1 GiB limit of constant folding: the runtime warns on load and does not allocate it."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["large"], name="\x1b[31mred"),
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["ids"], ["numbers"], to=kinds.FLOAT),
        helper.make_node("Where", ["valid", "numbers", "sum"], ["logits"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, kind, ["t", "l"])
        for name, kind in (("ids", kinds.INT64), ("valid", kinds.BOOL))
    ]
    outputs = [helper.make_tensor_value_info("logits", kinds.FLOAT, ["t", "l"])]
    size = helper.make_tensor("size", kinds.INT64, [1], [2_000_000_000])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [size])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    OnnxModel(tmp_path / "model.onnx", multi=False)
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")
