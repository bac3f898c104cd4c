"""Tests that challenger and champion predict the same dev texts, in whatever order their labels are stored."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.config_types import validate_as
from epigram.core.files import write_json
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.results import Task, write_files
from epigram.evaluation.settings import EvaluateSettings
from epigram.monitoring.challenge import Promotion
from epigram.runner.champions.champion import Hashes
from epigram.runner.retraining import challenge
from epigram.runner.workspace.settings import RetrainSettings
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from tests.support.evaluation_samples import system

LABELS = ["bad", "good"]


class Model:
    """Predictor with the labels good and bad; a text names its label, and only the model `chosen` predicts it."""

    def __init__(self, folder: Path) -> None:
        self.right = folder.name == "chosen"
        self.labels, self.thresholds = ["good", "bad"], [0.5, 0.5]

    def probabilities(self, texts: list[str]) -> Any:
        first = np.array([text.startswith("good") == self.right for text in texts])
        return np.where(first[:, None], [0.9, 0.1], [0.1, 0.9])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose dev texts have the label that they name, and whose test texts have the other label."""
    corpus = ValidatedCorpus(name="x", language="en", task="single", labels=LABELS, token_labels=[], tokens_only=False)
    corpus.write(tmp_path)
    write_json(tmp_path / "summary.json", {})
    for split, named in (("dev", LABELS), ("test", LABELS[::-1])):
        rows = [(f"{label} {n}", named[LABELS.index(label)]) for label in LABELS for n in range(20)]
        pl.DataFrame(rows, schema=["text", "label"], orient="row").write_parquet(tmp_path / f"{split}.parquet")
    monkeypatch.setattr("epigram.inference.predictors.open_predictor.open_predictor", Model)
    return tmp_path


def decided(place: Path, monkeypatch: pytest.MonkeyPatch, system: str, metric: str = "auto") -> Promotion:
    """Compare the model `chosen`, of `system`, with the champion, the model `model`."""

    def entry(model: str) -> Any:
        return SimpleNamespace(system=model, hashes=SimpleNamespace(model=model))

    monkeypatch.setattr(challenge, "_new_entry", lambda *_: entry("new"))
    for name, value in (("current", entry("old")), ("rolled_back", None), ("restore", place)):
        monkeypatch.setattr(challenge.champion, name, lambda *_, value=value: value)
    stages: Any = SimpleNamespace(find=lambda name: place / name)
    settings: Any = SimpleNamespace(retrain=RetrainSettings(), metric=metric)
    run: Any = SimpleNamespace(comparison={"chosen_system": system, "chosen_seed": 1})
    return challenge.challenge(place, place, stages, run, settings).decision


@pytest.mark.parametrize(("new", "old", "promoted"), [("chosen", "model", True), ("model", "chosen", False)])
def test_the_model_that_is_right_on_dev_wins(
    place: Path, monkeypatch: pytest.MonkeyPatch, new: str, old: str, promoted: bool
) -> None:
    answers = challenge._predict
    folders = {"chosen": place / new, "model": place / old}
    monkeypatch.setattr(challenge, "_predict", lambda model, *rest: answers(folders[model.name], *rest))
    found = decided(place, monkeypatch, "mlp")
    assert found.promoted is promoted
    assert found.reason.startswith("better: " if promoted else "worse: ")


def test_labels_that_appeared_or_vanished_under_the_champion(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The champion knows the vanished label old instead of bad, and takes each text of good for it."""

    def opened(folder: Path) -> Model:
        model = Model(folder)
        if folder.name == "model":
            model.labels = ["good", "old"]
        return model

    monkeypatch.setattr("epigram.inference.predictors.open_predictor.open_predictor", opened)
    found = decided(place, monkeypatch, "mlp")
    assert found.promoted
    assert [(change.label, change.champion) for change in found.classes] == [
        ("bad", 0.0),
        ("good", pytest.approx(2 / 3)),
    ]


def test_an_ensemble_is_judged_by_its_cross_fitted_predictions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model, fitted on dev, is right on all 40 texts; of the cross-fitted predictions of seed 1, 10 are right."""
    rows = [(f"{LABELS[n % 2]} {n}", LABELS[n % 2]) for n in range(40)]
    pl.DataFrame(rows, schema=["text", "label"], orient="row").write_parquet(place / "dev.parquet")
    write_files(place, system("ensemble", [set(), set(range(30))], [set(), set()], labels=LABELS, rows=40))
    assert "new 25.0%, champion old 0.0%, 40 development texts" in decided(place, monkeypatch, "ensemble").reason
    assert "new 100.0%, champion old 0.0%, 40 development texts" in decided(place, monkeypatch, "mlp").reason


@pytest.mark.parametrize(("task", "classes"), [("single", 30), ("multi", 3)])
def test_the_score_of_stored_predictions_is_that_of_the_report(place: Path, task: Task, classes: int) -> None:
    wrong = [{1}, {2, 3}, {4, 5, 6}]
    evaluation = system("ensemble", wrong, wrong, labels=[f"l{n}" for n in range(classes)], rows=40, task=task)
    write_files(place, evaluation)
    for seed in evaluation.metrics.seeds:
        found = challenge.read_predictions(place, seed.seed)
        assert metric_of("auto", task, []).score(found) == pytest.approx(seed.dev_score)


def test_the_champion_s_entry_has_the_hashes_of_its_manifest(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = {name: str(number) * 64 for number, name in enumerate(("data", "code", "parameters", "weights"))}
    chosen = place / "chosen"
    write_json(chosen / "manifest.json", {"provenance": made_of, "sha256": {"model.safetensors": "3" * 64}})
    (place / "params.yaml").write_text("dataset: x\n")
    monkeypatch.setattr(challenge, "output_hash", lambda *_: "md5")
    metric = metric_of("auto", "single", LABELS)
    new = challenge._predict(chosen, ValidatedCorpus.read(place), metric)
    comparison = {"chosen_system": "mlp", "chosen_seed": 0}
    run: Any = SimpleNamespace(name="run", dataset="x", revision="commit", comparison=comparison)
    settings: Any = SimpleNamespace(evaluate=EvaluateSettings(resamples=100))
    hashes = challenge._new_entry(place, run, chosen, place, metric, new, settings).hashes
    assert hashes.provenance == made_of
    assert hashes.model == sha256((chosen / "manifest.json").read_bytes()).hexdigest()
    kept = json.dumps({"data": "1", "code": "2", "params": "3", "model": "4"})
    assert validate_as(Hashes, json.loads(kept)).provenance == {}  # written by an older version
