"""Columns of the comparison, one declaration each, and the plots for `dvc plots`."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import pytest
import yaml
from rich.console import Console

from epigram.core.config_types import validate_as
from epigram.core.files import read_json
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus, Row, Summary
from epigram.report import columns
from epigram.report.columns import COLUMNS, Where, comparison, comparison_markdown
from epigram.report.dvc_plots import write_plots
from epigram.report.page import render
from epigram.report.table import Cell, Heading, Line, Table, markdown_table
from epigram.report.terminal import comparison_table, terminal_table
from epigram.runner.runs import run_page
from tests.support.evaluation_samples import corpus, cost, system

WRONG = [set(range(30)), set(range(32))]
EVALUATIONS = [
    system("svm", [{1}, {2, 3}], [{3}, {4, 5, 6}], price=cost(parameters=7_000, flops=2e6)),
    system("cnn", WRONG, WRONG),
]


@pytest.fixture(scope="module")
def summary() -> Summary:
    made = compare(validate_as(Corpus, corpus()), EVALUATIONS, 0.05)
    timed = [replace(row, ms_per_text=1.25, texts_per_second=12_345.0) for row in made.rows]
    return replace(made, rows=timed)


def test_a_size_that_is_not_known_hides_no_other(summary: Summary) -> None:
    first, *others = summary.rows
    table = comparison(replace(summary, rows=[replace(first, megabytes=2.5), *others]), "file")
    place = [heading.text for heading in table.headings].index("MB")
    assert [line.cells[place].text for line in table.lines] == ["2.5", "–"]


def printed(table: object) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(table)
    return out.getvalue()


# By hand: dev accuracies are 0.99 and 0.98, test accuracies 0.99 and 0.97; pruning halves the parameters. Only a page
# shows what is in brackets.
EXPECTED: dict[Where, dict[str, str]] = {
    "page": {
        "system": "svm",
        "dev": "98.5 (±0.7)",
        "test": "98.0 (±1.4)",
        "95% interval": "95.5 to 99.5",
        "macro-F1": "98.0",
        "vs. best,\ndev": "best",
        "vs. chosen,\ntest": "",
        "parameters": "14 k → 7 k",
        "FLOPs per text": "2 M",
        "ms per text": "1.25",
    },
    "speed": {"system": "svm", "ms per text": "1.25", "texts per second,\nin batches": "12.3 k", "front": ""},
    "file": {
        "system": "svm",
        "seeds": "2",
        "dev accuracy": "98.5 (±0.7)",
        "test accuracy [95% interval]": "98.0 [95.5, 99.5]",
        "test macro-F1": "98.0",
        "parameters": "14 k → 7 k",
        "FLOPs per text": "2 M",
        "parameters without embeddings": "700",
        "G multiply–adds per batch": "0.40",
        "ms per text": "1.25",
        "outcome": "**chosen**",
        "p (dev)": "–",
        "p (test)": "–",
    },
    "terminal": {
        "system": "▸ svm",
        "dev": "98.5 (±0.7)",
        "test, 95% interval": "98.0 [95.5, 99.5]",
        "macro-F1": "98.0",
        "parameters": "14 k → 7 k",
        "ms/text": "1.25",
    },
    "dashboard": {
        "system": "svm",
        "": "**chosen**",
        "dev accuracy": "98.5 (±0.7)",
        "test, 95% interval": "98.0 [95.5, 99.5]",
        "parameters": "14 k → 7 k",
        "ms per text": "1.25",
    },
}


@pytest.mark.parametrize("where", get_args(Where))
def test_each_table_has_its_columns_in_their_order(where: Where, summary: Summary) -> None:
    table = comparison(summary, where)
    chosen = table.lines[0]
    texts = [f"{cell.text} ({cell.small})" if cell.small else cell.text for cell in chosen.cells]
    found = zip([heading.text for heading in table.headings], texts, strict=True)
    assert list(found) == list(EXPECTED[where].items())


@pytest.mark.parametrize("outcome", ["tie", "worse"])
def test_only_the_chosen_system_is_highlighted(outcome: Literal["tie", "worse"], summary: Summary) -> None:
    rows = [summary.rows[0], replace(summary.rows[1], outcome=outcome)]
    assert [line.highlighted for line in comparison(replace(summary, rows=rows), "page").lines] == [True, False]


def test_a_worse_system_shows_its_outcome_and_p_on_both_sets(summary: Summary) -> None:
    _, cnn = comparison(replace(summary, rows=[summary.rows[0], other(summary.rows[1])]), "page").lines
    assert [(cell.text, cell.small) for cell in cnn.cells[5:7]] == [("worse", "p\xa00.012"), ("= tie", "p\xa00.34")]
    assert cnn.cells[0] == Cell("cnn", link="system-cnn")


def other(row: Row) -> Row:
    return replace(row, outcome="worse", test_outcome="tie", p_dev=0.012, p_test=0.34)


def test_every_column_says_what_it_shows() -> None:
    for each in COLUMNS:
        assert each.about.endswith(".")
        assert each.headings


def test_one_function_adds_a_column_to_every_table(monkeypatch: pytest.MonkeyPatch, summary: Summary) -> None:
    monkeypatch.setattr(columns, "COLUMNS", [*COLUMNS])

    @columns.column(dict.fromkeys(get_args(Where), "depth"))
    def depth(row: Row, summary: Summary) -> Cell:
        """Depth of the system."""
        return Cell(f"{row.depth} levels")

    systems = {each.metrics.system: each.metrics for each in EVALUATIONS}
    page = render(summary, systems, {}, "")
    assert '<th class="number" title="Depth of the system.">depth</th>' in page
    assert page.count('<td class="number">6 levels</td>') == 2
    for text in (comparison_markdown(summary), run_page.comparison(summary, [])):
        assert "±" not in text
        assert " depth |" in text
        assert text.count(" 6 levels |") == 2
    text = printed(comparison_table(summary))
    assert text.count("depth") == 1 and text.count("6 levels") == 2


def test_markdown_escapes_text_of_the_user_and_keeps_what_epigram_writes() -> None:
    headings = [Heading(text="a|b", kind="text"), Heading(text="[x]", kind="number"), Heading(text="", kind="mark")]
    table = Table(headings, [Line([Cell("<i>"), Cell("1 [0, 2]"), Cell("**chosen**")])])
    assert markdown_table(table).split("\n") == [
        "| a\\|b | [x] |  |",
        "| --- | ---: | --- |",
        "| &lt;i&gt; | 1 [0, 2] | **chosen** |",
    ]


def test_the_terminal_shows_no_control_characters_and_no_markup() -> None:
    table = Table([Heading(text="[b]name", kind="text")], [Line([Cell("\x1b[31m[red]x")], highlighted=True)])
    text = printed(terminal_table(table))
    assert "[b]name" in text and "[red]x" in text
    assert "\x1b" not in text


ROOT = Path(__file__).parents[3]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Write the plots of a system with two seeds, one of which stops early, and of one without epochs."""
    evaluations = [
        system("svm", [{1}, {2}], [set(range(40)), {4}], price=cost(depth=None)),
        system("cnn", [{1, 2, 3}, {2}], [{3}, {4}]),
    ]
    for seed, scores in ((0, (0.5, 0.7)), (1, (0.6, 0.8, 0.9))):
        folder = tmp_path / "pruned" / "cnn" / f"seed-{seed}"
        folder.mkdir(parents=True)
        lines = [{"epoch": number, "step": 9, "loss": 1.0, "dev": dev} for number, dev in enumerate(scores, 1)]
        (folder / "history.json").write_text(json.dumps(lines))
    out = tmp_path / "compared"
    out.mkdir()
    summary = compare(validate_as(Corpus, corpus()), evaluations, 0.05)
    write_plots(
        out,
        summary,
        {each.metrics.system: each.metrics for each in evaluations},
        {each.metrics.system: tmp_path / "pruned" / each.metrics.system for each in evaluations},
    )
    return out


def test_a_curve_is_the_mean_of_the_seeds_that_got_so_far(written: Path) -> None:
    lines = read_json(written / "plots" / "curves.json")
    assert [(line["system"], line["epoch"]) for line in lines] == [("cnn", 1), ("cnn", 2), ("cnn", 3)]
    assert [line["dev"] for line in lines] == pytest.approx([0.55, 0.75, 0.9])


def test_every_gold_label_s_shares_sum_to_one(written: Path) -> None:
    cells = read_json(written / "plots" / "confusion.json")
    for name in ("svm", "cnn"):
        for gold in {cell["gold"] for cell in cells}:
            row = [cell["share"] for cell in cells if (cell["system"], cell["gold"]) == (name, gold)]
            assert sum(row) == pytest.approx(1.0)


def test_the_numbers_are_the_summary_s(written: Path) -> None:
    metrics, scores = read_json(written / "metrics.json"), read_json(written / "plots" / "scores.json")
    for row in scores:
        assert metrics["systems"][row["system"]]["test_score"] == row["test"]
        assert row["low"] <= row["test"] <= row["high"]
    shown = {row["system"]: row["test"] for row in scores}
    assert shown == {"svm": pytest.approx((0.6 + 0.99) / 2), "cnn": pytest.approx(0.99)}
    assert metrics["chosen"]["system"] in metrics["systems"]
    assert "depth_pruned" not in metrics["systems"]["svm"]


def test_dvc_yaml_names_every_file_and_its_template(written: Path) -> None:
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    files = {f"data/compared/{path.relative_to(written)}" for path in written.rglob("*.json")}
    drawn = set()
    for name, shown in (item for plot in pipeline["plots"] for item in plot.items()):
        assert (ROOT / ".dvc" / "plots" / f"{shown['template']}.json").is_file()
        for path, field in (shown["y"] if isinstance(shown["y"], dict) else {name: shown["y"]}).items():
            drawn.add((path, field))
            assert {shown["x"], field} <= read_json(written / Path(path).relative_to("data/compared"))[0].keys()
    assert files == {*pipeline["metrics"], *(path for path, _ in drawn)}
    assert {field for path, field in drawn if path.endswith("curves.json")} == {"dev", "loss"}
