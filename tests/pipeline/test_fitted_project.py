"""A project that trains the model of a fit again: its settings, the refusal of other texts, and the same weights."""

from __future__ import annotations

import pickle
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import epigram
from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import sha256
from epigram.data.validation.settings import ValidateSettings
from epigram.fitting import estimates
from epigram.fitting.steps import StepSettings
from epigram.models.manifest import read_provenance
from epigram.runner.dvc.adapter import open_repo, stages_with_needs
from epigram.runner.git import git
from epigram.runner.project.files import update
from epigram.runner.workspace import settings
from tests.support import bad_input
from tests.support.linear_models import TRAIN, svm

ROOT = Path(__file__).parents[2]
BARE = pl.int_range(pl.len()) == 3, pl.int_range(pl.len()) == 21  # rows without a text and without a label
TEXTS = (
    pl.read_ndjson(ROOT / "data/pocket/pocket_en.jsonl")
    .head(150)
    .select(text=pl.when(~BARE[0]).then("text"), stars=pl.when(~BARE[1]).then("label"))
)
LEFT_OUT = ValidateSettings(on_empty="drop", on_unlabelled="drop")


@pytest.fixture(scope="module")
def model() -> Iterator[epigram.FittedModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "installed_encoder", lambda language: None)
        yield epigram.fit(TEXTS, label="stars", budget="30s", metric="macro_f1", verbose=False)


@pytest.fixture(scope="module")
def saved(model: epigram.FittedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("saved") / "my model")


def test_a_project_has_the_settings_of_the_fit_and_is_committed(saved: Path, tmp_path: Path) -> None:
    table = tmp_path / "Reviews 2024.csv"
    TEXTS.write_csv(table)  # another format with the same rows
    project = epigram.create_project(tmp_path / "new", model=saved, data=table)
    found, wanted = settings.load(project / "params.yaml"), StepSettings(validate=LEFT_OUT)
    for name in ("validate", "examine", "pos_table", "augment", "encode", "train", "prune", "evaluate", "compare"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert (found.dataset, found.seeds, list(found.systems)) == ("texts", [0], ["tfidf_svm"])
    assert found.metric == "macro_f1"
    assert (project / "data/local/texts.csv").read_bytes() == table.read_bytes()
    update(project)
    assert {path.name for path in (project / "data/sources").iterdir()} == {"local.yaml", "texts.yaml"}
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "--format=%s").splitlines()[0] == "Train the model of a fit of Reviews 2024.csv"


def test_the_report_and_the_project_have_the_name_of_the_file(tmp_path: Path) -> None:
    """The name is also one of a data set of epigram."""
    table = tmp_path / "mr.csv"
    TEXTS.write_csv(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "installed_encoder", lambda language: None)
        model = epigram.fit(table, label="stars", budget="20s", verbose=False)
    assert "<h1>mr</h1>" in model.report(show=False).read_text(encoding="utf-8")
    project = model.to_project(tmp_path / "new")
    assert settings.load(project / "params.yaml").dataset == "mr"
    assert (project / "data/local/mr.csv").read_bytes() == table.read_bytes()


@pytest.mark.slow
@pytest.mark.extended
def test_the_stages_of_dvc_give_the_weights_of_the_fit(model: epigram.FittedModel, saved: Path, tmp_path: Path) -> None:
    """The stages run in this process: a start of each takes longer than its work."""
    project = model.to_project(tmp_path / "Hotel Köln")
    with open_repo(project) as repo:
        commands = [stage.cmd for stage, _ in stages_with_needs(repo)]
    for command in commands:
        _, _, module, *arguments = shlex.split(command)
        ended = bad_input.call(project, import_module(module).main, module, *arguments)
        assert ended.code == 0, ended.err
    chosen = project / "data/compared/chosen"
    assert read_provenance(chosen) == read_provenance(saved)
    assert sha256(chosen / "model.safetensors") == sha256(saved / "model.safetensors")
    assert (chosen / "out_of_fold.safetensors").read_bytes() == (saved / "out_of_fold.safetensors").read_bytes()


ROW = pl.int_range(pl.len()) == 7
OTHER = next(n for n in range(1, 8) if TEXTS["stars"][7 - n] != TEXTS["stars"][7])  # rows back to another label
CHANGES = {
    "a label": TEXTS.with_columns(stars=pl.when(ROW).then(pl.col("stars").shift(OTHER)).otherwise("stars")),
    "a text": TEXTS.with_columns(text=pl.when(ROW).then(pl.col("text") + "!").otherwise("text")),
    "an order": TEXTS.reverse(),
    "a row less": TEXTS.head(-1),
    "splits": TEXTS.with_columns(split=pl.when(ROW).then(pl.lit("test")).otherwise(pl.lit("train"))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused_and_nothing_is_created(change: str, saved: Path, tmp_path: Path) -> None:
    CHANGES[change].write_csv(tmp_path / "reviews.csv")
    bad_input.epigram(tmp_path, "init", "--from", str(saved), "--data", "reviews.csv").refused(65, "reviews.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.csv"]


def test_the_command_names_the_project_after_the_file(saved: Path, tmp_path: Path) -> None:
    TEXTS.write_parquet(tmp_path / "reviews.parquet")
    done = bad_input.epigram(tmp_path, "init", "--from", str(saved), "--data", "reviews.parquet")
    assert done.code == 0 and "again\nnext:\n  cd reviews\n  epigram run " in done.out, done.err
    new = "new rows: put tables with the columns text and stars into data/local/incoming, then run: epigram retrain\n"
    assert done.out.endswith(new) and list((tmp_path / "reviews/data/local/incoming").iterdir()) == []
    assert (tmp_path / "reviews/dvc.yaml").is_file()
    bad_input.epigram(tmp_path, "init", "--from", str(saved), "--data", "reviews.parquet").refused(64, "is not empty")


def test_a_model_of_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="is not a model of epigram fit"):
        epigram.create_project(tmp_path / "new", model=svm(tmp_path, "en", TRAIN["en"]), data=tmp_path / "absent.csv")


def test_the_copy_of_a_model_has_no_texts(model: epigram.FittedModel, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"use epigram\.create_project"):
        pickle.loads(pickle.dumps(model)).to_project(tmp_path / "new")  # noqa: S301
