"""Targets of a student: labels and the teacher's probabilities, each for its own text and label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.core.files import write_arrays, write_json
from epigram.inference.predictors import open_predictor
from epigram.models.settings import System
from epigram.recipes.registry import RECIPES
from epigram.text.dataset import raw_texts
from epigram.text.settings import ViewSettings
from epigram.training import teacher as module
from epigram.training import train_model
from epigram.training.check_system import check_student
from epigram.training.config import TrainingConfig
from epigram.training.preflight import placeholder_spec
from epigram.training.system_setup import ModelSetup
from epigram.training.teacher import KEPT, Teacher, teacher_folder
from tests.support.trained import setup_of

TRAIN = np.array([[0.4, 0.6], [0.5, 0.5], [0.8, 0.2], [0.9, 0.1]], np.float32)  # of b and a for four training texts
TEXTS = np.array([[0.7, 0.3], [0.1, 0.9], [0.5, 0.5]], np.float32)  # of b and a for three texts without labels
LABELS = np.array([1, 0, 0, 1])  # of the training texts; 0 is a
OWN, OTHER = "f" * 64, "0" * 64  # digests of rows
STUDENT = System(view="v", recipe="textcnn", teacher="runs/first/model")


class Oracle:
    """Predictor whose labels have another order than those of the data; the number of a text is in its name."""

    labels, multi, thresholds = ["b", "a"], False, [0.3, 0.6]

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def probabilities(self, texts: list[str]) -> Any:
        self.asked.append(list(texts))
        return np.concatenate([TRAIN, TEXTS])[[int(text) for text in texts]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a saved model and the texts of a view."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path, rows=OWN)
    monkeypatch.setattr(open_predictor, "open_predictor", lambda folder: Oracle())
    numbers = {True: range(7), False: range(4, 7)}
    monkeypatch.setattr(raw_texts, "load_texts", lambda folder, *, train: list(map(str, numbers[train])))
    return tmp_path


def view_of(folds: int = 0, *, task: str = "single", fingerprint: str = "9" * 64) -> Any:
    labels = LABELS if task == "single" else np.array([[1, 1], [0, 0], [1, 0], [0, 1]], np.uint8)
    train = SimpleNamespace(labels=labels)
    return SimpleNamespace(
        folder=Path("view"),
        split=lambda name: train,
        folds=folds,
        task=task,
        tokens_only=False,
        labels=["a", "b"],
        rows_digest=OWN,
        fingerprint=fingerprint,
    )


def teacher_of(view: Any, label_weight: float = 0.5) -> Teacher:
    return Teacher.load("x", replace(STUDENT, label_weight=label_weight), view)


def save(project: Path, **provenance: str) -> None:
    """Write the manifest of the teacher."""
    write_json(project / "runs/first/model/manifest.json", {"provenance": provenance, "sha256": {}})


@pytest.mark.parametrize(("weight", "first"), [(0.0, [0.6, 0.4]), (0.25, [0.45, 0.55]), (1.0, [0.0, 1.0])])
def test_the_labels_of_the_training_texts_have_their_weight(weight: float, first: list[float]) -> None:
    found = teacher_of(view_of(), weight).targets()
    assert found[0] == pytest.approx(first)
    assert found[:4] == pytest.approx(weight * np.eye(2)[LABELS] + (1 - weight) * TRAIN[:, ::-1])
    assert (found[4:] == TEXTS[:, ::-1]).all()
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("folds", "provenance", "reason"),
    [(5, {"rows": OWN}, "folds"), (0, {"rows": OTHER}, "data"), (0, {"weights": OWN}, "data"), (0, {}, "data")],
)
def test_the_training_texts_keep_their_labels_if_the_teacher_may_know_dev(
    folds: int, provenance: dict[str, str], reason: str, project: Path
) -> None:
    """Folds replace dev, or the teacher was trained on other or unknown data; it is asked about no training text."""
    save(project, **provenance)
    teacher = teacher_of(view_of(folds))
    assert teacher.unranked == reason
    assert teacher.targets().tolist() == [[0, 1], [1, 0], [1, 0], [0, 1], *TEXTS[:, ::-1].tolist()]
    assert teacher.predictor.asked == [["4", "5", "6"]]  # type: ignore[attr-defined]


def test_a_text_with_several_labels_has_the_mean_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Oracle, "multi", True)
    found = teacher_of(view_of(task="multi")).targets()
    assert found[:2] == pytest.approx(np.array([[0.8, 0.7], [0.25, 0.25]]))


def test_a_student_of_folds_has_the_thresholds_of_its_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    assert teacher_of(view_of(5)).thresholds() is None
    monkeypatch.setattr(Oracle, "multi", True)
    assert teacher_of(view_of(5, task="multi")).thresholds() == [0.6, 0.3]
    assert teacher_of(view_of(task="multi")).thresholds() is None
    with pytest.raises(ParameterError, match="gives a text any number of labels of b, a; expected"):
        teacher_of(view_of())


@pytest.mark.parametrize("change", ["none", "code", "view", "model", "cut", "empty", "other arrays"])
def test_kept_probabilities_are_those_of_the_same_code_view_and_model(
    change: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, view = teacher_of(view_of()), view_of()
    assert (first.probabilities(train=False) == TEXTS[:, ::-1]).all()
    (kept,) = (project / KEPT).iterdir()
    content = kept.read_bytes()
    if change == "code":
        monkeypatch.setattr(module, "code_hash", lambda: "0" * 64)
    elif change == "view":
        view = view_of(fingerprint="8" * 64)
    elif change == "model":
        save(project, rows=OWN, code=OTHER)
    elif change == "other arrays":
        write_arrays(kept, {"logits": TEXTS})
    elif change != "none":
        kept.write_bytes(content[:-1] if change == "cut" else b"")
    again = teacher_of(view)
    for _ in range(2):  # what is computed again is kept as well
        assert (again.probabilities(train=False) == TEXTS[:, ::-1]).all()
    assert len(again.predictor.asked) == (change != "none")  # type: ignore[attr-defined]


def test_the_link_that_changes_is_named_wherever_it_is_on_the_way(project: Path) -> None:
    (project / "runs/latest").symlink_to("first")
    (project / "runs/mine").symlink_to("first")
    (project / "data/local/deep").mkdir(parents=True)
    (project / "data/local/model").symlink_to(project / "runs/latest/model")
    (project / "data/local/deep/again").symlink_to("../model")
    (project / "data/local/fixed").symlink_to(project / "runs/first/model")
    for path in ("runs/latest/model", "data/local/model", "data/local/deep/again", "runs/champion/model"):
        with pytest.raises(ParameterError, match=r"x is '.*', but the link runs/\w+ changes with every run"):
            teacher_folder(path, "x")
    for path in ("runs/first/model", "runs/mine/model", "data/local/fixed"):
        assert teacher_folder(path, "x") == Path(path)


def test_a_workspace_follows_its_link_to_the_runs(project: Path) -> None:
    (project / "runs/latest").symlink_to("first")
    workspace = project / ".epigram/workspaces/a"
    workspace.mkdir(parents=True)
    (workspace / "runs").symlink_to(project / "runs")
    assert teacher_folder("runs/first/model", "x", workspace) == workspace / "runs/first/model"
    (project / "runs/other").symlink_to("latest")
    for name in ("latest", "other"):
        with pytest.raises(ParameterError, match="runs/latest changes"):
            teacher_folder(f"runs/{name}/model", "x", workspace)


def test_shared_settings_of_the_loss_have_no_effect_on_a_student() -> None:
    context = placeholder_spec(ViewSettings(), multi=False, tokens=False)
    shared = {"class_weight": "balanced", "label_smoothing": 0.1, "epochs": 3}
    assert check_student("x", STUDENT, shared, context, "data/local/texts.txt") == [
        f"params.yaml: no effect: train.{key} (a student learns from probabilities)"
        for key in ("class_weight", "label_smoothing")
    ]
    assert check_student("x", System(view="v", recipe="textcnn"), shared, context, None) == []


@pytest.mark.parametrize(
    ("recipe", "multi", "reason"),
    [
        ("cnle", True, "the head label_decoder finds several labels by a search"),
        ("bilstm_tagger", False, "the head tagger learns labels of words as well"),
        ("tfidf_svm", False, "the model linear_svm is not trained by gradient"),
    ],
)
def test_a_system_that_cannot_learn_probabilities_is_refused(recipe: str, multi: bool, reason: str) -> None:
    system = System(view="v", recipe=recipe, teacher="runs/first/model")
    with pytest.raises(ParameterError, match=rf"systems\.x cannot learn from probabilities, because {reason}") as error:
        check_student(
            "x", system, {}, placeholder_spec(ViewSettings(), multi=multi, tokens=not multi), "data/local/texts.txt"
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "view"),
    [
        ("cnle", ViewSettings()),
        ("exam", ViewSettings()),
        ("leam", ViewSettings()),
        ("dmsp", ViewSettings()),
        ("mhal_zero", ViewSettings(characters=True)),
        ("bert_hth_pta", ViewSettings(tokenizer="wordpiece", prompt=True)),
        ("bert_cnn", ViewSettings(tokenizer="wordpiece")),
    ],
)
def test_a_system_with_any_head_of_probabilities_may_learn(recipe: str, view: ViewSettings) -> None:
    system, context = System(view="v", recipe=recipe, teacher="a"), placeholder_spec(view, multi=False, tokens=True)
    assert check_student("x", system, {}, context, "data/local/texts.txt") == []


def test_a_student_keeps_the_settings_that_need_no_labels() -> None:
    config = TrainingConfig(class_weight="balanced", label_smoothing=0.1, focal_gamma=2.0, fitted_head=True, epochs=3)
    assert config.for_student() == TrainingConfig(epochs=3)


def test_the_folds_of_a_student_have_the_plain_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[TrainingConfig] = []

    def cross_validate(setup: ModelSetup, **_: Any) -> None:
        seen.append(setup.config)
        raise DataError("seen")

    monkeypatch.setattr(train_model, "cross_validate", cross_validate)
    config = TrainingConfig(class_weight="balanced")
    setup = setup_of(RECIPES["textcnn"], config, view_of(2))
    for targets in (TEXTS, None):
        with pytest.raises(DataError, match="seen"):
            train_model.train_model(setup, tmp_path / "0", targets)
    assert [each.class_weight for each in seen] == ["none", "balanced"]
