"""The cells of a printed table, measured by real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from epigram.runner.tables.definition import FOLDER
from epigram.runner.tables.results import read_results
from tests.support.bad_input import epigram
from tests.support.shop_repository import Shop, copied
from tests.support.toy import command_env

TABLE = """
title: Two rows of words
page: words
printed: {T1: {accuracy: accuracy}}
seeds: [4]
minutes: {default: 1, paper: 1}
views: {token: {tokenizer: token}}
datasets:
  English: {source: shop}
rows:
  tfidf_svm: {system: {recipe: tfidf_svm, view: token}}
"""
ANOTHER_ROW = "  FastText: {system: {recipe: fast_text, view: token, train: {epochs: 1}}}\n"


def table(shop: Shop, server: str) -> str:
    """Measure the missing cells of the table, and return what the command prints."""
    command = [sys.executable, "-m", "epigram.cli", "table", "t"]
    env = command_env() | {"PREFECT_API_URL": server}
    done = subprocess.run(command, cwd=shop.root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def define(shop: Shop, text: str) -> None:
    (shop.root / FOLDER).mkdir(parents=True, exist_ok=True)
    (shop.root / FOLDER / "t.yaml").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.extended
def test_only_missing_cells_are_measured(bare: Path, tmp_path: Path, prefect_url: str) -> None:
    shop = copied(bare, tmp_path / "repo")
    define(shop, TABLE)
    assert "t: 1 of 1 missing cells measured" in table(shop, prefect_url)
    (first,) = read_results(shop.root, "t")
    define(shop, TABLE.replace("source: shop", "source: shop, columns: [default]") + ANOTHER_ROW)
    assert epigram(shop.root, "table", "--list").out.startswith("t: Two rows of words: 1 of 2 cells measured")
    assert "t: 1 of 1 missing cells measured" in table(shop, prefect_url)
    assert epigram(shop.root, "table", "t").out == "every cell of t is measured\n"
    results = read_results(shop.root, "t")
    assert first in results
    assert {(each.row, each.column, each.seed) for each in results} == {
        ("FastText", "default", 4),
        ("tfidf_svm", "default", 4),
    }
    for each in results:
        run = next(shop.root.glob(f"runs/t-*-shop-{each.row.lower()}-{each.column}-{each.seed}")) / "summary.json"
        rows = {row["system"]: row for row in json.loads(run.read_text(encoding="utf-8"))["systems"]}
        assert each.scores["accuracy"] == rows[each.row.lower()]["test_accuracy"]
