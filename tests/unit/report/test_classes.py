"""Tests of what the report shows of many classes: which labels, which confused pairs, and how large the report gets."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from epigram.core.config_types import validate_as
from epigram.core.files import read_json
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.results import ClassScores, Evaluated, write_evaluation
from epigram.evaluation.records.summary import Corpus
from epigram.report import charts
from epigram.report.classes import ConfusedPair, confused_pairs, confusion, label_table
from epigram.report.data_page import render_page
from epigram.report.dvc_plots import write_plots
from epigram.report.page import render
from epigram.runner.runs import run_page
from tests.support.evaluation_samples import corpus, data_report, system


def names(count: int) -> list[str]:
    return [f"c{k:02}" for k in range(count)]


def matrix(rows: list[int]) -> list[list[int]]:
    """Return the confusion matrix of a perfect system whose labels have `rows` gold rows."""
    return np.diag(rows).tolist()


def cells(counts: Any) -> list[list[int]]:
    """Return the cells of a confusion matrix as `Metrics` has them."""
    whole = np.array(counts)
    return [[gold, said, int(whole[gold, said])] for gold, said in np.argwhere(whole).tolist()]


def test_the_labels_with_the_most_gold_rows_are_shown() -> None:
    """Of 62 labels, 59 have two rows and three have one: the first of these is shown, the other two are hidden."""
    rows = [2] * 62
    rows[7] = rows[30] = rows[61] = 1
    counts = matrix(rows)
    counts[0] = [1, *[0] * 60, 1]  # one of the two rows of c00 is predicted as c61, which is hidden
    counts[61] = [1, *[0] * 61]  # predictions do not count: c00 now has two, c61 has one
    shown = confusion(names(62), cells(counts))
    assert shown.labels == [name for name in names(62) if name not in {"c30", "c61"}]
    assert shown.total == 62
    assert shown.shares[0][0] == 0.5 and sum(shown.shares[0]) == 0.5
    assert shown.shares[1][1] == 1.0 and shown.counts[1][1] == 2
    assert shown.counts[7][7] == 1


def test_a_label_without_gold_rows_has_shares_of_zero() -> None:
    shown = confusion(["a", "b"], [[1, 0, 3], [1, 1, 1]])
    assert shown.shares == [[0.0, 0.0], [0.75, 0.25]]


def test_the_most_confused_pairs_are_those_of_all_labels_and_ties_are_in_order() -> None:
    counts = matrix([90] * 61)
    counts[60][3], counts[2][1], counts[2][0], counts[0][60], counts[5][4] = 7, 4, 4, 4, 9
    pairs = confused_pairs(names(61), cells(counts))
    assert pairs == [
        ConfusedPair("c05", "c04", 9),
        ConfusedPair("c60", "c03", 7),
        ConfusedPair("c00", "c60", 4),
        ConfusedPair("c02", "c00", 4),
        ConfusedPair("c02", "c01", 4),
    ]


def test_at_most_twenty_pairs_are_listed() -> None:
    counts = np.ones((61, 61), int)
    counts[0, 40] = 2
    pairs = confused_pairs(names(61), cells(counts))
    assert len(pairs) == 20
    assert pairs[0] == ConfusedPair("c00", "c40", 2)
    assert [pair.predicted for pair in pairs[1:]] == names(20)[1:]  # c00 as c01, c02, …


def test_sixty_labels_are_all_shown() -> None:
    assert confusion(names(60), cells(np.ones((60, 60), int))).labels == names(60)


def test_the_table_of_labels_keeps_each_label_s_threshold() -> None:
    support = [2] * 61
    support[10] = 1
    classes = [
        ClassScores(label=name, precision=1, recall=1, f1=1, support=count)
        for name, count in zip(names(61), support, strict=True)
    ]
    table = label_table(classes, [f"0.{k:03}" for k in range(61)])
    assert (len(table.rows), table.total) == (60, 61)
    assert {(each.label, threshold) for each, threshold in table.rows} == {
        (name, f"0.0{name[1:]}") for name in names(61) if name != "c10"
    }
    assert label_table(classes[:2]).rows == [(classes[0], ""), (classes[1], "")]


LABELS = [f"a class with a long name, number {k:04}" for k in range(1_000)]


def thousand(name: str) -> Evaluated:
    """Return the evaluation of a system that confuses every pair of the first 200 of 1,000 labels at least once."""
    draw = np.random.default_rng(0)
    counts = np.diag(draw.integers(1, 50, 1_000))
    counts[:200, :200] = draw.integers(1, 50, (200, 200))
    made = system(name, [{1}], [{2}])
    classes = [
        ClassScores(label=label, precision=0.5, recall=0.5, f1=0.5, support=support)
        for label, support in zip(LABELS, counts.sum(1).tolist(), strict=True)
    ]
    return replace(made, metrics=replace(made.metrics, labels=LABELS, confusion=cells(counts), classes=classes))


@pytest.fixture(scope="module")
def six() -> list[Evaluated]:
    return [thousand(f"system{k}") for k in range(6)]


def test_a_report_of_six_systems_and_a_thousand_classes_is_small_and_says_what_it_shows(six: list[Evaluated]) -> None:
    summary = compare(validate_as(Corpus, corpus(LABELS)), six, 0.05)
    systems = {each.metrics.system: each.metrics for each in six}
    html = render(summary, systems, {}, render_page(data_report(LABELS)))
    assert len(html.encode()) < 3_000_000
    text = " ".join(re.sub(r"<[^>]+>", " ", html).split())
    assert text.count("Shown are the 60 most frequent of 1,000 labels; metrics.json of the system has all.") == 6
    assert text.count("Share of each gold label’s rows; the 60 most frequent of 1,000 labels.") == 6
    assert text.count("Most confused labels Of all 1,000 labels.") == 6
    assert text.count("Shown are the 60 most frequent of 1,000 labels; report.json has all.") == 2  # texts and tokens
    assert f"{LABELS[18]}, {LABELS[19]}, …" in text  # labels of a text in conflict


def test_the_data_page_shows_the_labels_that_are_most_frequent_in_train() -> None:
    page = render_page(data_report(LABELS))
    classes = page[page.index("<h3>Classes</h3>") : page.index("<h3>Token labels</h3>")]
    assert re.findall(r'<th scope="row">.*number (\d+)</th>', classes) == [str(k).zfill(4) for k in range(940, 1_000)]
    assert "<td>1,000 (0.2%)</td>" in classes


def test_a_run_s_artifacts_of_a_thousand_classes_are_below_a_megabyte(tmp_path: Path, six: list[Evaluated]) -> None:
    write_evaluation(tmp_path / "system0", six[0])
    graph: Any = [SimpleNamespace(outs=[tmp_path / "system0"])]
    drawn = run_page.draw_charts(graph, "system0")
    assert list(drawn) == [
        "system0 on the test set: confusion matrix of the 60 most frequent of 1,000 labels",
    ]
    summary = compare(validate_as(Corpus, corpus(LABELS)), six, 0.05)
    page = run_page.comparison(summary, [run_page.image(title, svg) for title, svg in drawn.items()])
    assert len(page.encode()) < 1_000_000
    about = run_page.corpus({"name": "sample", "labels": LABELS, "rows": {"train": 1}, "notes": []})
    assert f"1,000 labels: {LABELS[0]}, " in about.replace("1000", "1,000")
    assert f"{LABELS[59]}, …" in about
    assert LABELS[60] not in about


def test_dvc_compares_the_shown_part_of_the_matrix(tmp_path: Path, six: list[Evaluated]) -> None:
    summary = compare(validate_as(Corpus, corpus(LABELS)), six[:1], 0.05)
    write_plots(tmp_path, summary, {"system0": six[0].metrics}, {"system0": tmp_path / "system0"})
    drawn = read_json(tmp_path / "plots" / "confusion.json")
    assert len(drawn) == 60 * 60
    shown = confusion(LABELS, six[0].metrics.confusion)
    assert [drawn[61][key] for key in ("gold", "predicted", "rows", "share")] == [
        shown.labels[1], shown.labels[1], shown.counts[1][1], shown.shares[1][1]
    ]  # fmt: skip


@pytest.mark.parametrize(("classes", "described"), [(20, 400), (21, 0)])
def test_a_large_matrix_describes_no_single_cells(classes: int, described: int) -> None:
    metrics: Any = SimpleNamespace(labels=names(classes), confusion=cells(np.ones((classes, classes), int)))
    root = ElementTree.fromstring(charts.confusion(metrics))
    drawn = [each for each in root.iter() if each.get("fill") == charts.ACCENT]
    assert len(drawn) == classes**2
    assert sum(each.get("aria-label") is not None for each in drawn) == described


def test_a_cell_of_the_matrix_has_its_share_and_its_number_of_rows() -> None:
    metrics: Any = SimpleNamespace(labels=["a", "b"], confusion=[[0, 0, 1_500], [0, 1, 500], [1, 1, 7]])
    root = ElementTree.fromstring(charts.confusion(metrics))
    texts = [each.text for each in root.iter() if each.text and not len(each)]
    assert [text for text in texts if text[0].isdigit()] == ["75%", "1,500", "25%", "500", "100%", "7"]
