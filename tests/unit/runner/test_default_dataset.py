"""Tests of the data set that `epigram add` makes the one of params.yaml."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from epigram.runner.workspace.settings import use_dataset
from tests.support.bad_input import ROWS, Workshop, csv

ROOT = Path(__file__).parents[3]


PARAMS = """\
dataset: pocket_zh   # a name
seeds: [0]
views:
  token: {tokenizer: token}   # words
  spelled: {tokenizer: token, characters: true}
systems:
  tfidf_svm: {view: token}
  mhal_joint: {view: spelled}
"""


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """Return the params.yaml of a project with data sets without and with labels of words, and Chinese texts."""
    sources = tmp_path / "data" / "sources"
    shutil.copytree(ROOT / "data" / "sources", sources)
    text = (sources / "pocket_zh.yaml").read_text(encoding="utf-8")
    (sources / "mine.yaml").write_text(text.replace("name: pocket_zh", "name: mine"), encoding="utf-8")
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path / "params.yaml"


@pytest.mark.parametrize("before", ["pocket_zh", "pocket_en"])
def test_the_first_data_set_takes_the_place_of_an_embedded_one(before: str, params: Path) -> None:
    params.write_text(PARAMS.replace("pocket_zh", before))
    assert use_dataset(params, "mine") == "params.yaml: dataset is now mine; runs, retrainings and schedules use it"
    assert params.read_text() == PARAMS.replace("pocket_zh  ", "mine       ")
    assert use_dataset(params, "ced") is None


def test_systems_that_the_data_set_does_not_suit_are_removed_with_their_views(params: Path) -> None:
    said = use_dataset(params, "ced")
    assert said is not None and "dataset is now ced, without mhal_joint, which it does not suit; runs" in said
    assert yaml.safe_load(params.read_text()) == {
        "dataset": "ced",
        "seeds": [0],
        "views": {"token": {"tokenizer": "token"}},
        "systems": {"tfidf_svm": {"view": "token"}},
    }
    assert "# words" in params.read_text()


def test_a_view_that_another_system_reads_stays(params: Path) -> None:
    params.write_text(PARAMS + "  spelled_svm: {recipe: tfidf_svm, view: spelled}\n")
    use_dataset(params, "ced")
    assert yaml.safe_load(params.read_text())["views"].keys() == {"token", "spelled"}


@pytest.mark.parametrize("content", ["dataset: ced\n", "dataset: [pocket_zh]\n", "seeds: [0]\n"])
def test_a_data_set_that_the_user_chose_stays(content: str, params: Path) -> None:
    params.write_text(content)
    assert use_dataset(params, "mine") is None
    assert params.read_text() == content


def test_add_chooses_the_data_set_and_says_so(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    params, file = tmp_path / "params.yaml", tmp_path / "new" / "mine.csv"
    params.write_text(yaml.safe_dump(yaml.safe_load(params.read_text()) | {"dataset": "pocket_zh"}))
    file.write_text(csv(ROWS))
    ended = shop.epigram("add", "new/mine.csv")
    assert ended.code == 0 and "dataset is now mine" in ended.out
    assert yaml.safe_load(params.read_text())["dataset"] == "mine"
