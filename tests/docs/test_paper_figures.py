"""Figures of docs/papers: their matrices, their points and their drawings have known answers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import paper_matrices
from benchmarks.paper_figures import FIGURES, Curve, HeatMaps, Matrices
from benchmarks.paper_svg import Panel, Point, curves, heat_maps, nice_ticks
from benchmarks.timing import ROOT
from epigram import TextAttention
from epigram.runner.tables.definition import PrintedTable, TableCell, cells, read_table
from epigram.runner.tables.results import CellResult, settings

SVG = "{http://www.w3.org/2000/svg}"
TOKENS = ["good", "film"]


def attention(**maps: Any) -> dict[str, TextAttention]:
    """Return the maps of the text "good film" by one system."""
    names = {"tokens": TOKENS, "labels": ["P", "N"], "label_rows": ["P", "N", "<eos>"], "token_labels": ["O", "P"]}
    return {"system": TextAttention(**names, **{key: np.asarray(value) for key, value in maps.items()})}


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_attention_before_and_after_the_head_to_head_step() -> None:
    scores = np.array([[[0.0, 1.0], [2.0, 0.5]], [[1.0, 3.0], [0.0, 0.0]], [[0.2, 0.1], [0.3, 0.9]]])  # U of 3 heads
    factors = np.array([0.5, -1.5, 2.0])
    after = softmax(factors[:, None, None] * scores)
    panels = paper_matrices.head_to_head(attention(attention=after[None], head_factors=factors[None]))
    assert [each.title for each in panels] == [
        "head 2, before",
        "head 2, after: factor -1.50",
        "head 3, before",
        "head 3, after: factor 2.00",
    ]
    wanted = [softmax(scores[1]), after[1], softmax(scores[2]), after[2]]
    for each, values in zip(panels, wanted, strict=True):
        np.testing.assert_allclose(each.values, values, atol=6e-4)
        assert each.rows == each.columns == TOKENS


def test_the_first_layer_of_the_self_attention() -> None:
    heads = [[[0.2, 0.8], [0.5, 0.5]], [[0.4, 0.6], [1.0, 0.0]]]
    [panel] = paper_matrices.self_attention(attention(attention=[heads, np.zeros((2, 2, 2))]))
    assert panel == Panel("system", TOKENS, TOKENS, [[0.3, 0.7], [0.75, 0.25]])


def test_co_attention_has_labels_as_rows_in_both_directions() -> None:
    to_labels = [[[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], [[0.7, 0.1, 0.2], [0.3, 0.4, 0.3]]]  # heads, tokens, labels
    to_text = [[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]]
    first, second = paper_matrices.co_attention(attention(text_to_labels=to_labels, labels_to_text=to_text))
    assert first.rows == second.rows == ["P", "N", "<eos>"] and first.columns == second.columns == TOKENS
    assert first.values == [[0.6, 0.2], [0.2, 0.6], [0.2, 0.2]]
    assert second.values == to_text[0]


def test_votes_of_the_layers_and_their_sum() -> None:
    [panel] = paper_matrices.votes(attention(layer_weights=[0.25, 0.75], layer_votes=[[0.2, 0.05], [0.3, 0.45]]))
    assert panel.rows == ["layer 1, β 0.25", "layer 2, β 0.75", "sum"]
    assert panel.values == [[0.2, 0.05], [0.3, 0.45], [0.5, 0.5]]


def test_heads_of_the_token_labels() -> None:
    [panel] = paper_matrices.label_heads(attention(label_probabilities=[[0.9, 0.1], [0.4, 0.6]]))
    assert panel == Panel("system", ["O", "P"], TOKENS, [[0.9, 0.4], [0.1, 0.6]])


def result(table: PrintedTable, cell: TableCell, scores: dict[str, float | None]) -> CellResult:
    return CellResult(
        **{name: getattr(cell, name) for name in ("dataset", "row", "column", "seed")},
        settings=settings(table, cell),
        scores=scores,
        dev=0.5,
        low=0.4,
        high=0.6,
        rows={"train": 80},
        seconds=1.0,
        revision="abc",
    )


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("hth_figure_6", {"bert_pta": [0.0, 0.25, 0.5, 0.75, 1.0]}),
        ("transformer_f_figure_3", {"transformer_f": [1.0, 2.0, 2.6926, 4.0, 6.0]}),
        (
            "mhal_figure_3",
            {"MHAL-tok": [10.0, 30.0, 50.0, 100.0], "MHAL-joint": [10.0, 30.0, 50.0, 100.0], "MHAL-zero": [0.0]},
        ),
    ],
)
def test_the_points_of_a_sweep(name: str, lines: dict[str, list[float]]) -> None:
    figure, table = FIGURES[name], read_table(ROOT, name)
    assert isinstance(figure, Curve)
    measured = [cell for cell in cells(table) if cell.seed < 2]
    found = [result(table, cell, {figure.score: (number + cell.seed) / 100}) for number, cell in enumerate(measured)]
    points = figure.points(table, found)
    assert {line: [point.x for point in each] for line, each in points.items()} == {
        line: pytest.approx(places, abs=1e-4) for line, places in lines.items()
    }
    rows = len(measured) // 2
    assert points[figure.lines[measured[0].system["recipe"]]][0].values == pytest.approx((0.0, rows + 1.0))
    changed = replace(found[0], settings={})
    left = figure.points(table, [changed, *found[1:]])
    assert left[figure.lines[measured[0].system["recipe"]]][0].values == pytest.approx((rows + 1.0,))


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ({}, ""),
        ({"epochs": 4}, " except train.epochs = 4"),
        ({"epochs": 2, "clip": 1.5}, " except train.epochs = 2 and train.clip = 1.5"),
    ],
)
def test_a_figure_names_the_changed_settings_of_its_models(
    train: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = {name: {"train": train} for name in ("a", "b")}
    found = Matrices(source="ced", rows=2_000, systems=systems, scores={"a": 0.5, "b": 0.625}, text="t", panels=[])
    monkeypatch.setattr(HeatMaps, "recorded", lambda *_: found)
    assert HeatMaps(title="t").data("t") == (
        f"Trained on 2,000 texts of the source `ced` with one seed and epigram's defaults{said}; "
        "test accuracy: `a` 50.0, `b` 62.5."
    )


def shapes(drawing: str, kind: str) -> list[ET.Element]:
    return list(ET.fromstring(drawing).iter(SVG + kind))


def test_a_heat_map_goes_from_the_smallest_to_the_largest_value() -> None:
    drawing = heat_maps([Panel("a & b", ["<eos>"], ["x", "好", "y"], [[0.5, 0.25, 0.3]])])
    assert [each.get("fill-opacity") for each in shapes(drawing, "path")] == ["0.75", "0.03", "0.17"]
    texts = ["a & b (0.25 to 0.50)", "x", "好", "y", "<eos>", "0.50", "0.25", "0.30"]
    assert [each.text for each in shapes(drawing, "text")] == texts


def test_a_constant_heat_map() -> None:
    drawing = heat_maps([Panel("a", ["r"], ["x", "y"], [[0.5, 0.5]])])
    assert [each.get("fill-opacity") for each in shapes(drawing, "path")] == ["0.03", "0.03"]


def test_a_large_heat_map_has_no_numbers() -> None:
    names = [f"word{number}" for number in range(8)]
    drawing = heat_maps([Panel("a", names, names, np.eye(8).tolist())])
    assert len(shapes(drawing, "text")) == 1 + 2 * 8


def test_a_curve_has_its_means_and_its_seeds() -> None:
    lines = {"one": [Point(0.0, (80.0, 84.0)), Point(1.0, (84.0,))], "two": [Point(0.5, (80.0,))]}
    drawing = curves(lines, x="share", y="score")
    circles = [(each.get("cx"), each.get("cy"), each.get("r")) for each in shapes(drawing, "circle")]
    # ticks 80 to 84, the plane is 420 × 220 from (46, 32)
    assert circles == [
        ("46.0", "142.0", "4"),
        ("46.0", "252.0", "2"),
        ("46.0", "32.0", "2"),
        ("466.0", "32.0", "4"),
        ("256.0", "252.0", "4"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (80.0, 84.0, [80, 81, 82, 83, 84]),
        (79.3, 83.9, [78, 80, 82, 84]),
        (80.0, 80.0, [80, 80.2]),
        (0.0, 79.6, [0, 20, 40, 60, 80]),
    ],
)
def test_round_numbers_at_an_axis(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == ticks
