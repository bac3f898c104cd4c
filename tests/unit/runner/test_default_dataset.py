"""Tests of the data set that `epigram add` makes the one of params.yaml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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
    assert params.read_text() == PARAMS.replace("pocket_zh", "mine")
    assert use_dataset(params, "ced") is None


@pytest.mark.parametrize("content", [PARAMS, (ROOT / "params.yaml").read_text(encoding="utf-8")])
def test_only_the_data_set_and_the_systems_that_it_does_not_suit_change(content: str, params: Path) -> None:
    params.write_text(content, encoding="utf-8")
    said = use_dataset(params, "ced")
    assert said is not None and "dataset is now ced, without mhal_joint, which it does not suit; runs" in said
    expected = content.replace("dataset: pocket_zh", "dataset: ced").replace("  mhal_joint: {view: spelled}\n", "")
    assert params.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("content", ["dataset: ced\n", "dataset: [pocket_zh]\n", "seeds: [0]\n"])
def test_a_data_set_that_the_user_chose_stays(content: str, params: Path) -> None:
    params.write_text(content)
    assert use_dataset(params, "mine") is None
    assert params.read_text() == content


@pytest.mark.skipif(not str(ROOT).isascii(), reason="PyTorch cannot be imported from such a folder in the C locale")
def test_add_writes_utf_8_in_every_locale_and_only_its_own_lines(tmp_path: Path) -> None:
    """In the C locale, a file that is opened without an encoding is ASCII; in zh_CN.GBK, it is GBK."""
    (tmp_path / "data/sources").mkdir(parents=True)
    shutil.copy(ROOT / "data/sources/pocket_zh.yaml", tmp_path / "data/sources")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "评论.csv").write_bytes(csv(ROWS).replace("good", "好").encode("gb18030"))
    command = [sys.executable, "-c", "from epigram.cli import program; program()", "add", "评论.csv", "--name", "mine"]
    locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **locale}, capture_output=True, encoding="ascii", check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = ((root / "params.yaml").read_text(encoding="utf-8").splitlines() for root in (ROOT, tmp_path))
    assert after[: len(before)] != before and "dataset: mine          # name of a file" in after[2]
    gone = [line for line in before if line not in after]
    systems = ("cnle", "transformer_f", "dmsp", "mhal_joint", "bert_hth_pta")  # tfidf_svm stays
    assert gone == [line for line in before if line.startswith(("dataset:", *(f"  {name}: " for name in systems)))]
    assert "- 好" in (tmp_path / "data/sources/mine.yaml").read_text(encoding="utf-8")


def test_add_again_keeps_the_comments_of_the_description(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    file, description = tmp_path / "new" / "mine.csv", tmp_path / "data/sources/mine.yaml"
    file.write_text(csv(ROWS), encoding="utf-8")
    assert shop.epigram("add", "new/mine.csv").code == 0
    own = description.read_text(encoding="utf-8").replace("language:", "# my comment\nfolds: 5  # mine\nlanguage:")
    description.write_text(own, encoding="utf-8")
    file.write_text(csv(ROWS[4:]), encoding="utf-8")
    assert shop.epigram("add", "new/mine.csv", "--replace").code == 0
    lines = description.read_text(encoding="utf-8").splitlines()
    changed = [line for line in lines if line not in own.splitlines()]
    assert [line.partition(":")[0] for line in changed] == ["  sha256", "  all"]
    assert len(lines) == len(own.splitlines())


def test_add_chooses_the_data_set_and_says_so(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    params, file = tmp_path / "params.yaml", tmp_path / "new" / "mine.csv"
    params.write_text(yaml.safe_dump(yaml.safe_load(params.read_text()) | {"dataset": "pocket_zh"}))
    file.write_text(csv(ROWS))
    ended = shop.epigram("add", "new/mine.csv")
    assert ended.code == 0 and "dataset is now mine" in ended.out
    assert yaml.safe_load(params.read_text())["dataset"] == "mine"
