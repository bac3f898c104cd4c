"""Exported graphs: comparison with the model, timing, limits, and messages of ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.inference.onnx import export, quantize
from epigram.inference.onnx.graph import _stable_sort, check_graph, random_batch
from epigram.inference.onnx.ngram_graph import write_ngrams
from epigram.inference.predictors.runtimes import GraphModel, read_ngrams
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.serialization import Saved
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec, Prediction, Tokens

Model = Callable[[Tokens], Prediction]
FRAME = TextTemplate(
    language="en", max_length=30, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None, vocabulary=50,
)  # fmt: skip


def saved(model: Any) -> Saved:
    return Saved(Path("model"), "textcnn", model, ["a", "b"], FRAME, [])


def predicting(logit: float, off: float = 0.0, token_off: float | None = None) -> Model:
    """Return a model of equal logits; `off` is added to one of them, `token_off` to one logit of the first token."""

    def model(tokens: Tokens) -> Prediction:
        logits = torch.full((len(tokens.ids), 2), logit)
        logits[0, 1] += off
        each = torch.zeros(*tokens.ids.shape, 2)
        each[0, 0, 1] += token_off or 0.0
        each[~tokens.valid] = token_off or 0.0  # logits of padding are ignored
        return Prediction(logits, tokens=None if token_off is None else each)

    return model


def accepted(logit: float, off: float, token_off: tuple[float, float] | None = None) -> bool:
    """Return whether a graph with these differences from its model is accepted."""
    before, after = token_off or (None, None)
    model, graph = predicting(logit, token_off=before), predicting(logit, off, after)
    try:
        check_graph(saved(model), graph)  # type: ignore[arg-type]
    except ParameterError:
        return False
    return True


@pytest.mark.parametrize(("logit", "limit"), [(0.0, 1e-4), (-0.9, 1e-4), (1.6, 1.6e-4), (-8.0, 8e-4)])
def test_one_logit_may_differ_by_a_ten_thousandth_of_the_largest_but_no_less_than_of_1(
    logit: float, limit: float
) -> None:
    assert accepted(logit, 0.95 * limit)
    assert not accepted(logit, 1.05 * limit)
    assert not accepted(logit, float("nan"))


def test_one_logit_of_one_token_may_differ_as_little() -> None:
    assert accepted(0.0, 0.0, (0.0, 0.95e-4))
    assert not accepted(0.0, 0.0, (0.0, 1.05e-4))
    assert not accepted(0.0, 1.05e-4, (0.0, 0.0))


def test_the_batches_compared_are_one_token_several_texts_and_the_longest_text() -> None:
    seen: list[Tokens] = []

    def graph(tokens: Tokens) -> Prediction:
        seen.append(tokens)
        return predicting(0.0)(tokens)

    check_graph(saved(predicting(0.0)), graph)  # type: ignore[arg-type]
    assert [tuple(tokens.ids.shape) for tokens in seen] == [(1, 1), (3, 17), (1, 30)]
    assert all((tokens.ids != FRAME.unk_id).any() for tokens in seen)


def test_random_texts_have_tokens_from_one_to_as_many_as_the_first() -> None:
    tokens = random_batch(saved(None), 300, 3)
    assert int(tokens.valid[0].sum()) == 3
    assert set(tokens.valid.sum(1)[1:].tolist()) == {1, 2, 3}
    assert set(tokens.ids[tokens.valid].tolist()) == set(range(FRAME.vocabulary))
    single = tokens.ids[tokens.valid.sum(1) == 1, 0]
    assert (single == FRAME.unk_id).float().mean() < 0.2  # an empty text would be read as one unknown token


def test_random_texts_are_spelled_by_their_own_letters() -> None:
    letters = random_batch(replace(saved(None), frame=replace(FRAME, characters="ab")), 300, 3).characters
    assert letters is not None
    assert set(letters[letters > 0].tolist()) == {2, 3}  # 0 is padding, 1 an unknown character


def test_times_are_medians_of_nine_rounds_after_one_that_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = {"a": iter([100.0, *range(1, 10)]), "b": iter([0.0, *range(20, 11, -1)])}
    batches: list[Tokens] = []

    def timed(model: str, tokens: Tokens) -> float:
        batches.append(tokens)
        return float(next(rounds[model]))

    monkeypatch.setattr(quantize, "_run_time", timed)
    model: Any = type("Model", (), {"multi": False})
    assert quantize.milliseconds(saved(model), "a", "b") == [5.0, 16.0]  # type: ignore[arg-type]
    assert len(batches) == 20 and len({id(tokens) for tokens in batches}) == 1
    assert batches[0].ids.shape == (32, 24)


def test_the_second_of_two_runs_is_timed_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5.0, 5.25])
    called: list[Any] = []
    runs_before: list[int] = []

    def now() -> float:
        runs_before.append(len(called))
        return next(clock)

    monkeypatch.setattr(quantize, "perf_counter", now)
    assert quantize._run_time(called.append, "a batch") == 250.0  # type: ignore[arg-type]
    assert runs_before == [1, 2]
    assert called == ["a batch"] * 2


@pytest.mark.parametrize(("fast", "slow", "written"), [(1.0, 2.0, True), (2.0, 2.0, False), (2.0, 1.0, False)])
def test_a_graph_in_8_bits_takes_the_place_of_the_whole_one_only_if_it_is_faster(
    fast: float, slow: float, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx, library = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime.quantization")
    path, times = tmp_path / "model.onnx", {b"int8": fast, b"fp32": slow}
    path.write_bytes(b"fp32")
    loaded = SimpleNamespace(graph=SimpleNamespace(value_info=["shape"]))
    monkeypatch.setattr(onnx, "load", lambda _: loaded)
    monkeypatch.setattr(library, "quantize_dynamic", lambda whole, small, **_: small.write_bytes(b"int8"))
    monkeypatch.setattr(quantize, "GraphModel", lambda path, multi: times[path.read_bytes()])
    monkeypatch.setattr(quantize, "own_predictions", lambda _: 10.0)
    monkeypatch.setattr(quantize, "milliseconds", lambda _, *models: list(models))
    monkeypatch.setattr(quantize, "same_labels", lambda *_: 1.0)
    model: Any = SimpleNamespace(multi=False)
    if written:
        quantize.quantize(saved(model), path)
    else:
        with pytest.raises(ParameterError, match="int8 is not faster than the fp32 graph for textcnn"):
            quantize.quantize(saved(model), path)
    assert path.read_bytes() == (b"int8" if written else b"fp32")
    assert loaded.graph.value_info == []


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_weights_leave_a_mebibyte_of_the_two_gibibytes_for_the_graph(
    more: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"parts": {}}))
    monkeypatch.setattr(export, "count_parameters", lambda _: (2047 * 1024 * 1024) // 4 + more)
    model = Saved(tmp_path, "bert", None, [], FRAME, [])
    if refused:
        with pytest.raises(ParameterError, match="larger than 2 GB, the limit of an ONNX file"):
            export._check_exportable(model)
    else:
        export._check_exportable(model)


def test_ngrams_are_written_with_their_token_ids_from_0_on(tmp_path: Path) -> None:
    model = LinearSvmConfig(orders=[1, 2]).build(DataSpec(vocabulary=9, classes=2, max_length=8))
    keys = torch.tensor([1, 3, 11, 23, 99])  # in base 10, a digit is a token id + 1
    model.install(keys, torch.ones(5), torch.zeros(5, 2))
    write_ngrams(model, tmp_path / "ngrams.json")
    wanted = '{"vocabulary":9,"ngrams":{"1":[[0],[2]],"2":[[0,0],[1,2],[8,8]]}}'
    assert (tmp_path / "ngrams.json").read_text().strip() == wanted
    assert read_ngrams(tmp_path / "ngrams.json")[0].tolist() == keys.tolist()


def test_ngrams_of_many_tokens_and_orders_without_any_are_read_exactly(tmp_path: Path) -> None:
    stored = {"vocabulary": 10**6 - 1, "ngrams": {"1": [[7]], "2": [], "3": [[123456, 0, 5], [123456, 0, 6]]}}
    (tmp_path / "ngrams.json").write_text(json.dumps(stored))
    keys, (vocabulary, orders, *_) = read_ngrams(tmp_path / "ngrams.json")
    assert keys.tolist() == [8, 123457_000001_000006, 123457_000001_000007]  # in base 10**6; above 2**53
    assert (keys.dtype, vocabulary, orders) == (torch.int64, 10**6 - 1, (1, 3))


def test_the_session_uses_torch_s_threads_without_spinning_and_plans_no_memory(tmp_path: Path) -> None:
    onnx, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    from epigram.inference.predictors.runtimes import GraphModel

    kinds = [("ids", TensorProto.INT64), ("valid", TensorProto.BOOL)]
    inputs = [helper.make_tensor_value_info(name, kind, ["b", "l"]) for name, kind in kinds]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", "l"])
    node = helper.make_node("Cast", ["ids"], ["logits"], to=TensorProto.FLOAT)
    graph = helper.make_graph([node], "g", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "g.onnx")
    options = GraphModel(tmp_path / "g.onnx", multi=False).session.get_session_options()
    assert options.intra_op_num_threads == torch.get_num_threads()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert not options.enable_mem_pattern


@pytest.mark.parametrize(
    ("given", "wanted", "places"),
    [
        ({"dim": 0, "descending": True}, [[4, 4], [3, 2]], [[1, 0], [0, 1]]),
        ({"dim": 0}, [[3, 2], [4, 4]], [[0, 1], [1, 0]]),
        ({}, [[3, 4], [2, 4]], [[0, 1], [1, 0]]),
        ({"dim": 1, "descending": True}, [[4, 3], [4, 2]], [[1, 0], [0, 1]]),
    ],
)
def test_onnx_sorts_up_or_down_along_any_axis_and_the_last_one_by_default(
    given: dict[str, Any], wanted: list[list[int]], places: list[list[int]]
) -> None:
    pytest.importorskip("onnxscript", reason="requires the extra onnx")
    values, order = _stable_sort(np.array([[3.0, 4.0], [4.0, 2.0]], dtype=np.float32), True, **given)
    assert values.value.tolist() == wanted
    assert order.value.tolist() == places


def test_of_equal_values_the_first_stays_first() -> None:
    pytest.importorskip("onnxscript", reason="requires the extra onnx")
    for descending in (False, True):
        _, order = _stable_sort(np.zeros((1, 5), dtype=np.float32), True, descending=descending)
        assert order.value.tolist() == [[0, 1, 2, 3, 4]]


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
    GraphModel(tmp_path / "model.onnx", multi=False)
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")
