"""Tables of papers: which cells there are, in which order they are measured, and which results count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.runner.prefect.sweep import Trial
from epigram.runner.tables.definition import FOLDER, cells, check_rows, read_table, table_names
from epigram.runner.tables.results import make_trials, missing_cells, read_results, record, remaining_minutes

TABLE = """
title: A table
page: a_page
printed: {A_T1: {accuracy: accuracy}}
seeds: [3, 5]
minutes: {default: 2, paper: 30}
views: {token: {tokenizer: token}}
datasets:
  Films: {source: mr, cap: {train: {epochs: 2}}}
  Posts: {source: ced}
rows:
  Fast text: {system: {recipe: fast_text, view: token, train: {batch_size: 64}}}
  A+B: {system: {recipe: mlp, view: token}, own: true, only: [Films]}
  Given: {system: {recipe: mlp, view: token, encoder: {depth: 1}}, preset: false, only: [Posts]}
  tfidf_svm: {system: {recipe: tfidf_svm, view: token}}
"""


def project(root: Path, text: str = TABLE) -> Path:
    """Write the table `t` of a project."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    (root / FOLDER / "t.yaml").write_text(text, encoding="utf-8")
    return root


def test_the_own_rows_come_first_then_every_row_then_further_seeds_of_own_rows(tmp_path: Path) -> None:
    found = list(cells(read_table(project(tmp_path), "t")))
    assert [(cell.dataset, cell.row, cell.column, cell.seed) for cell in found] == [
        ("Films", "A+B", "default", 3),
        ("Films", "A+B", "paper", 3),
        ("Films", "Fast text", "default", 3),
        ("Films", "tfidf_svm", "default", 3),  # it has no preset
        ("Posts", "Fast text", "default", 3),
        ("Posts", "tfidf_svm", "default", 3),
        ("Films", "Fast text", "paper", 3),
        ("Posts", "Fast text", "paper", 3),
        ("Posts", "Given", "paper", 3),
        ("Films", "A+B", "default", 5),
        ("Films", "A+B", "paper", 5),
    ]
    assert [cell.name for cell in found[1:4]] == ["a_b", "fast_text", "tfidf_svm"]


def test_the_cap_of_a_data_set_is_in_the_column_of_the_paper_alone(tmp_path: Path) -> None:
    found = {(cell.dataset, cell.row, cell.column): cell.system for cell in cells(read_table(project(tmp_path), "t"))}
    own = {"recipe": "fast_text", "view": "token", "train": {"batch_size": 64}}
    capped = {"batch_size": 64, "epochs": 2}
    assert found["Films", "Fast text", "paper"] == {**own, "train": capped, "preset": "paper"}
    assert found["Films", "Fast text", "default"] == own
    assert found["Posts", "Given", "paper"] == {"recipe": "mlp", "view": "token", "encoder": {"depth": 1}}


def test_a_data_set_may_have_one_column(tmp_path: Path) -> None:
    text = TABLE.replace("source: ced", "source: ced, columns: [default]")
    found = [
        (cell.row, cell.column) for cell in cells(read_table(project(tmp_path, text), "t")) if cell.dataset == "Posts"
    ]
    assert found == [("Fast text", "default"), ("tfidf_svm", "default")]


def finished(trial: Trial, **rows: float) -> None:
    """Write the summary of a run whose systems have the accuracies `rows`."""
    costs = dict.fromkeys(("parameters_without_embeddings", "batch_macs", "depth", "depth_pruned"))
    interval = {"test_low": 0.1, "test_high": 0.9}
    summary: dict[str, Any] = {
        "systems": [
            {
                "system": name,
                "scores": {"accuracy": value},
                "dev_score": 0.5,
                **interval,
                **costs,
            }
            for name, value in rows.items()
        ],
        "splits": {"train": 80, "dev": 10, "test": 10},
        "stages": {f"{stage}@{name}": {"seconds": 15.0} for name in (*rows, "other") for stage in ("learn", "judge")},
        "revision": "abc",
    }
    folder = trial.request.root / "runs" / str(trial.request.name)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


def first_trial(root: Path) -> Trial:
    """Return the first run of the missing cells of the column `paper`."""
    table = read_table(root, "t")
    missing = [cell for cell in missing_cells(table, read_results(root, "t")) if cell.column == "paper"]
    return make_trials("t", table, missing, root, "t-1")[0]


def test_a_run_has_one_cell(tmp_path: Path) -> None:
    table = read_table(project(tmp_path), "t")
    trials = make_trials("t", table, cells(table), tmp_path, "t-1")
    assert len(trials) == 11
    assert [trial.request.name for trial in trials[:4]] == [
        "t-1-mr-a_b-default-3",
        "t-1-mr-a_b-paper-3",
        "t-1-mr-fast_text-default-3",
        "t-1-mr-tfidf_svm-default-3",
    ]
    assert len({trial.request.name for trial in trials}) == 11
    request = trials[0].request
    assert request.seeds == (3,) and list(request.changes["systems"]) == ["a_b"]
    assert request.changes["ensemble"] == {"enabled": False} and list(request.changes["views"]) == ["token"]
    assert trials[-1].request.name == "t-1-mr-a_b-paper-5" and trials[-1].request.seeds == (5,)


def test_a_recorded_cell_is_missing_again_only_if_its_settings_change(tmp_path: Path) -> None:
    table = read_table(project(tmp_path), "t")
    for accuracy in (0.7, 0.8):
        trial = first_trial(tmp_path)
        finished(trial, fast_text=accuracy, a_b=accuracy)
        record(trial)
    measured = read_results(tmp_path, "t")
    assert [(each.row, each.column, each.scores["accuracy"]) for each in measured] == [
        ("A+B", "paper", 0.7),
        ("Fast text", "paper", 0.8),
    ]
    assert [each.seconds for each in measured] == [30.0, 30.0]  # of the two stages of its system, without others
    left = missing_cells(table, measured)
    assert len(left) == 9 and left[0].column == "default"
    changed = read_table(project(tmp_path, TABLE.replace("epochs: 2", "epochs: 4")), "t")
    assert [(cell.row, cell.seed) for cell in missing_cells(changed, measured) if cell.column == "paper"][:2] == [
        ("A+B", 3),
        ("Fast text", 3),
    ]


def test_a_run_of_changed_settings_replaces_the_cell(tmp_path: Path) -> None:
    project(tmp_path)
    for accuracy in (0.7, 0.6):
        finished(trial := first_trial(tmp_path), a_b=accuracy)
        record(trial)
        project(tmp_path, TABLE.replace("epochs: 2", "epochs: 4"))
        (tmp_path / "runs").rename(tmp_path / f"old{accuracy}")
    assert [each.scores["accuracy"] for each in read_results(tmp_path, "t")] == [0.6]


def test_a_run_without_its_row_is_an_error_that_names_it(tmp_path: Path) -> None:
    finished(trial := first_trial(project(tmp_path)), fast_text=0.7)
    with pytest.raises(DataError, match=r"no result of A\+B"):
        record(trial)
    assert read_results(tmp_path, "t") == []


def test_the_time_that_is_left_is_of_the_columns_of_the_missing_cells(tmp_path: Path) -> None:
    table = read_table(project(tmp_path), "t")
    finished(trial := first_trial(tmp_path), a_b=0.7)
    record(trial)
    # of 11 cells, 6 have the defaults; one of the others is measured, in far less time than is estimated
    assert remaining_minutes(table, missing_cells(table, read_results(tmp_path, "t"))) == 6 * 2 + 4 * 30


def test_chosen_rows_are_measured_alone(tmp_path: Path) -> None:
    table = read_table(project(tmp_path), "t")
    chosen = check_rows(table, ["tfidf_svm", "A+B"])
    assert [cell.row for cell in missing_cells(table, [], chosen)] == ["A+B"] * 2 + ["tfidf_svm"] * 2 + ["A+B"] * 2
    with pytest.raises(ParameterError, match=r"has no row 'A\+C': did you mean 'A\+B'"):
        check_rows(table, ["tfidf_svm", "A+C"])


def test_a_data_set_of_another_size_has_its_own_time(tmp_path: Path) -> None:
    text = TABLE.replace("Posts: {source: ced}", "Posts: {source: ced, minutes: {paper: 100}}")
    table = read_table(project(tmp_path, text), "t")
    # Posts has two cells with the paper's settings and two with the defaults
    assert remaining_minutes(table, cells(table)) == 6 * 2 + 3 * 30 + 2 * 100


@pytest.mark.parametrize(
    ("name", "text", "error", "said"),
    [
        ("t", None, InputMissingError, "benchmarks/tables has no table"),
        ("../t", TABLE, ParameterError, "unknown table '../t'"),
        ("u", TABLE, ParameterError, "unknown table 'u'"),
        ("t", TABLE.replace("[Films]", "[Filmes]"), ParameterError, "rows.A.B.only names 'Filmes'"),
        ("t", TABLE.replace("seeds: [3, 5]", "seeds: []"), ParameterError, "t.yaml: seeds"),
        ("t", TABLE.replace(", paper: 30", ""), ParameterError, "t.yaml: minutes has no time for the column paper"),
    ],
)
def test_an_invalid_table_is_refused(
    tmp_path: Path, name: str, text: str | None, error: type[Exception], said: str
) -> None:
    if text is not None:
        project(tmp_path, text)
    with pytest.raises(error, match=said):
        read_table(tmp_path, name)


def test_the_tables_of_the_project_are_valid() -> None:
    root = Path(__file__).resolve().parents[3]
    for name in table_names(root):
        found = list(cells(read_table(root, name)))
        assert found
        assert len({cell.name for cell in found}) == len({cell.row for cell in found})  # no two rows are one system
