"""The cells of a printed table, measured by real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from epigram.runner.tables.definition import FOLDER
from epigram.runner.tables.results import read_results
from tests.support.project_copy import tree
from tests.support.toy import command_env

TABLE = """
title: Two rows of words
page: words
printed: {T1: {accuracy: accuracy}}
seeds: [4]
minutes: {default: 1, paper: 1}
views: {token: {tokenizer: token}}
datasets:
  English: {source: pocket_en}
rows:
  tfidf_svm: {system: {recipe: tfidf_svm, view: token}}
"""
ANOTHER_ROW = "  FastText: {system: {recipe: fast_text, view: token, train: {epochs: 1}}}\n"


def table(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `epigram table` in the project."""
    return subprocess.run(
        [sys.executable, "-m", "epigram.cli", "table", *words],
        cwd=folder,
        env=command_env() | {"PYTHONPATH": f"{folder}:{folder / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.extended
def test_only_missing_cells_are_measured(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    (folder / FOLDER).mkdir(parents=True)
    (folder / FOLDER / "t.yaml").write_text(TABLE, encoding="utf-8")
    done = table(folder, "t")
    assert done.returncode == 0, done.stderr
    assert "t: 1 of 1 missing cells measured" in done.stdout
    (first,) = read_results(folder, "t")
    text = TABLE.replace("source: pocket_en", "source: pocket_en, columns: [default]") + ANOTHER_ROW
    (folder / FOLDER / "t.yaml").write_text(text, encoding="utf-8")
    assert table(folder, "--list").stdout.startswith("t: Two rows of words: 1 of 2 cells measured")
    assert "t: 1 of 1 missing cells measured" in table(folder, "t").stdout
    assert table(folder, "t").stdout == "every cell of t is measured\n"
    results = read_results(folder, "t")
    assert first in results
    assert {(each.row, each.column, each.seed) for each in results} == {
        ("FastText", "default", 4),
        ("tfidf_svm", "default", 4),
    }
    for each in results:
        run = next(folder.glob(f"runs/t-*-pocket_en-{each.row.lower()}-{each.column}-{each.seed}")) / "summary.json"
        rows = {row["system"]: row for row in json.loads(run.read_text(encoding="utf-8"))["systems"]}
        assert each.scores["accuracy"] == rows[each.row.lower()]["test_accuracy"]
