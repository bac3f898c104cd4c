"""The train stage on a checkpoint: the learning rate it trains at, and settings of params.yaml without effect."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from epigram.stages import train
from epigram.text.settings import ViewSettings
from epigram.training import system_setup as setup
from epigram.training.distributed import resources
from tests.support.precisions import discards
from tests.support.tiny_bert import write_bert

ROWS = [("good", "pos"), ("bad", "neg")] * 4
QUICK = {"epochs": 1, "batch_size": 8}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_bert(tmp_path / "tiny_bert", ("good", "bad"))


@pytest.fixture
def stage(tmp_path: Path, encoded: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that runs the stage for one system, and returns the manifest of its model."""

    def run(system: dict[str, Any], view: ViewSettings, shared: dict[str, Any] | None = None) -> dict[str, Any]:
        corpus = encoded(dict.fromkeys(("train", "dev", "test"), ROWS), "en", view)
        params = {"dataset": "x", "seeds": [0], "views": {"v": {}}, "systems": {"x": {"view": "v", **system}}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump({**params, "train": shared or {}}))
        (tmp_path / "none").mkdir(exist_ok=True)
        (tmp_path / "none/about.json").write_text('{"steps": 0}')
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["train", "x", str(corpus.folder), "none", "models"])
        train.main()
        manifest: dict[str, Any] = json.loads((tmp_path / "models/seed-0/manifest.json").read_text())
        return manifest

    return run


@pytest.mark.parametrize(
    ("shared", "own", "rate"),
    [({}, {}, 5e-5), ({}, {"learning_rate": 2e-5}, 2e-5), ({"learning_rate": 3e-5}, {}, 3e-5)],
    ids=["recipe's", "system's", "run's"],
)
def test_a_checkpoint_is_trained_at_the_rate_that_the_user_sets(
    shared: dict[str, Any], own: dict[str, Any], rate: float, stage: Callable[..., dict[str, Any]], checkpoint: Path
) -> None:
    system = {"recipe": "bert", "train": {**QUICK, **own}}
    manifest = stage(system, ViewSettings(tokenizer="wordpiece", checkpoint=str(checkpoint)), shared)
    assert manifest["training"]["learning_rate"] == rate


def test_an_encoder_that_has_not_learned_the_language_of_the_texts_is_refused(
    stage: Callable[..., dict[str, Any]],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reasons = {(str(checkpoint), "en"): "of another language"}
    monkeypatch.setattr(setup, "unknown_language", lambda *asked: reasons.get(asked, ""))
    with pytest.raises(SystemExit, match="64"):
        stage({"recipe": "bert", "train": QUICK}, ViewSettings(tokenizer="wordpiece", checkpoint=str(checkpoint)))
    assert "params.yaml: views.v: of another language" in capsys.readouterr().err


def test_sizes_for_an_encoder_from_scratch_are_refused_with_a_checkpoint(
    stage: Callable[..., dict[str, Any]], checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = {"recipe": "bert", "encoder": {"small": {"width": 16}}, "train": QUICK}
    view = ViewSettings(tokenizer="wordpiece", checkpoint=str(checkpoint))
    with pytest.raises(SystemExit, match="64"):
        stage(system, view)
    assert "systems.x.encoder.small has no effect, because the view's checkpoint" in capsys.readouterr().err


def test_a_shared_setting_without_effect_is_a_warning(
    stage: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    stage({"recipe": "tfidf_svm"}, ViewSettings(), {"epochs": 2, "clip": 0.5, "max_length": 9})
    assert (
        "x: params.yaml: no effect: train.epochs, train.clip (the model linear_svm is not trained by gradient descent)"
    ) in capsys.readouterr().out


def test_a_training_says_what_it_runs_on_and_the_model_remembers_it(
    stage: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.workflow.train.has_unused_gpu", lambda: True)
    manifest = stage({"recipe": "textcnn", "train": {**QUICK, "precision": "bf16"}}, ViewSettings())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert manifest["hardware"] == {**resources.hardware("bf16", torch.device(device)), "precision": "bf16"}
    said = capsys.readouterr().out
    assert f"x: device {manifest['hardware']['device']}, bf16 products, PyTorch {torch.__version__}\n" in said
    assert "x: warning: the machine has a GPU, but PyTorch is a CPU build; see epigram doctor\n" in said


def test_a_model_without_a_network_does_not_speak_of_devices(
    stage: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.workflow.train.has_unused_gpu", lambda: True)
    stage({"recipe": "tfidf_svm"}, ViewSettings())
    said = capsys.readouterr().out
    assert "device" not in said and "GPU" not in said


def test_resume_state_of_another_precision_is_discarded(
    stage: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(setup: object, out: Path, targets: object) -> None:
        out.mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("epigram.workflow.train.train_model", stop)

    def start() -> None:
        stage({"recipe": "textcnn", "train": QUICK}, ViewSettings())

    assert discards(start, SystemExit, monkeypatch, capsys) == [False, False, True]
