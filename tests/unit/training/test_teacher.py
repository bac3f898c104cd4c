"""Targets of a student: labels, out-of-fold probabilities, and the teacher's probabilities, each for its own text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epigram.core.errors import DataError
from epigram.core.files import write_arrays
from epigram.evaluation.label_probabilities import LabelProbabilities
from epigram.evaluation.results import write_evaluation
from epigram.evaluation.stored_probabilities import fields_of
from epigram.inference import open_predictor
from epigram.models.settings import Student
from epigram.text import student_texts
from epigram.text.settings import View
from epigram.training import teacher as module
from epigram.training import train_and_save
from epigram.training.check_student import check_student
from epigram.training.config import TrainingConfig
from epigram.training.preflight import placeholder_spec
from epigram.training.teacher import KEPT, Teacher
from tests.support.evaluation_samples import system

TEXTS = np.array([[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]], np.float32)  # of three texts without labels
LABELS = np.array([1, 0, 0, 1])  # of four training texts
OUT_OF_FOLD = np.array([[[0.6, 0.4], [0.5, 0.5], [0.2, 0.8], [0.1, 0.9]], [[0.0, 1.0]] * 4], np.float32)  # of two seeds


@pytest.fixture
def teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teacher:
    evaluation = system("svm", [set(), set()], [set(), set()], rows=4)
    predictions = replace(evaluation.predictions, dev_probabilities=OUT_OF_FOLD, dev_rows=np.array([2, 3, 5, 8]))
    write_evaluation(tmp_path / "svm", replace(evaluation, predictions=predictions))
    monkeypatch.setattr(Teacher, "probabilities", lambda self, view, seed: TEXTS)
    return Teacher(name="svm", models=tmp_path, evaluated=tmp_path / "svm")


def view_of(folds: int, *, task: str = "single", rows: tuple[int, ...] = (2, 3, 5, 8)) -> Any:
    labels = LABELS if task == "single" else np.array([[1, 1], [0, 0], [1, 0], [0, 1]], np.uint8)
    train = SimpleNamespace(labels=labels, rows=np.array(rows))
    return SimpleNamespace(split=lambda name: train, folds=folds, task=task, labels=["a", "b"])


def test_with_a_dev_split_the_training_texts_have_their_labels(teacher: Teacher) -> None:
    found = teacher.targets(view_of(0), 0, 1.0)
    assert found.tolist() == [[0, 1], [1, 0], [1, 0], [0, 1], *TEXTS.tolist()]
    assert found.dtype == np.float32


@pytest.mark.parametrize(("weight", "first"), [(0.0, [0.6, 0.4]), (0.25, [0.45, 0.55]), (1.0, [0.0, 1.0])])
def test_with_folds_the_labels_have_their_weight(teacher: Teacher, weight: float, first: list[float]) -> None:
    found = teacher.targets(view_of(5), 0, weight)
    assert found[0] == pytest.approx(first)
    assert found[:4] == pytest.approx(weight * np.eye(2)[LABELS] + (1 - weight) * OUT_OF_FOLD[0])
    assert (found[4:] == TEXTS).all()


def test_a_text_with_several_labels_has_the_mean_of_each(teacher: Teacher) -> None:
    assert teacher.targets(view_of(5, task="multi"), 0, 0.5)[:2] == pytest.approx(np.array([[0.8, 0.7], [0.25, 0.25]]))


def test_the_thresholds_of_a_student_separate_the_out_of_fold_probabilities_of_its_teacher(teacher: Teacher) -> None:
    """The four labels have 0.9, 0.6, 0.4 and 0.2, the others 0.8, 0.5, 0.5 and 0.1: above 0.15, 4 of 7 are right."""
    assert teacher.thresholds(view_of(5, task="multi"), 0) == pytest.approx([0.15, 0.15])
    assert teacher.thresholds(view_of(5, task="multi"), 1) == [0.5, 0.5]
    assert teacher.thresholds(view_of(5), 0) is None
    assert teacher.thresholds(view_of(0, task="multi"), 0) is None


def test_each_seed_has_the_probabilities_of_its_teacher(teacher: Teacher) -> None:
    assert (teacher.targets(view_of(5), 1, 0.0)[:4] == [0.0, 1.0]).all()


@pytest.mark.parametrize(("seed", "rows"), [(2, (2, 3, 5, 8)), (0, (2, 5, 3, 8)), (0, (2, 3, 5))])
def test_probabilities_of_other_texts_are_refused(teacher: Teacher, seed: int, rows: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"does not evaluate seed {seed} on the folds of train"):
        teacher.targets(view_of(5, rows=rows), seed, 0.0)


def test_with_many_labels_those_that_are_not_stored_share_the_rest(tmp_path: Path, teacher: Teacher) -> None:
    """Of 25 labels, the 20 most probable ones are stored; the other five have 0.14 together."""
    given = np.full((1, 4, 25), 0.04, np.float32)
    given[0, :, :5] = [0.01, 0.07, 0.07, 0.02, 0.03]
    stored = LabelProbabilities.of(given)
    evaluation = system("svm", [set()], [set()], rows=4)
    fields = fields_of("dev", stored) | fields_of("test", stored) | {"dev_rows": np.array([2, 3, 5, 8])}
    metrics = replace(evaluation.metrics, labels=[f"label {n}" for n in range(25)])
    write_evaluation(
        tmp_path / "many", replace(evaluation, metrics=metrics, predictions=replace(evaluation.predictions, **fields))
    )
    found = replace(teacher, evaluated=tmp_path / "many").out_of_fold(view_of(5), 0)
    assert found.shape == (4, 25)
    assert found[0, :5] == pytest.approx([0.14 / 5, 0.07, 0.07, 0.14 / 5, 0.14 / 5], abs=1e-6)
    assert found.sum(1) == pytest.approx(np.ones(4))


@pytest.mark.parametrize("change", ["none", "code", "texts", "model", "cut", "empty", "other arrays"])
def test_kept_probabilities_are_those_of_the_same_code_texts_and_model(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[Path] = []

    def predictor(folder: Path) -> Any:
        made.append(folder)
        return SimpleNamespace(probabilities=lambda texts: TEXTS * np.float32(len(made)))

    monkeypatch.setattr(open_predictor, "open_predictor", predictor)
    monkeypatch.setattr(student_texts, "load_texts", lambda folder: ["a", "b", "c"])
    manifest, texts = tmp_path / "seed-3/manifest.json", tmp_path / student_texts.TEXTS
    manifest.parent.mkdir()
    for file in (manifest, texts):
        file.write_text("{}")
    teacher, view = Teacher(name="svm", models=tmp_path, evaluated=tmp_path), SimpleNamespace(folder=tmp_path)
    assert (teacher.probabilities(view, 3) == TEXTS).all()  # type: ignore[arg-type]
    (kept,) = (tmp_path / KEPT).iterdir()
    content = kept.read_bytes()
    if change == "code":
        monkeypatch.setattr(module, "code_hash", lambda: "0" * 64)
    elif change in ("texts", "model"):
        (texts if change == "texts" else manifest).write_text("[]")
    elif change == "other arrays":
        write_arrays(kept, {"logits": TEXTS})
    elif change != "none":
        kept.write_bytes(content[:-1] if change == "cut" else b"")
    for _ in range(2):  # what is computed again is kept as well
        again = teacher.probabilities(view, 3)  # type: ignore[arg-type]
        assert (again == TEXTS * np.float32(1 if change == "none" else 2)).all()
    assert made == [manifest.parent] * (1 if change == "none" else 2)


def test_shared_settings_of_the_loss_have_no_effect_on_a_student() -> None:
    context = placeholder_spec(View(), multi=False, tokens=False)
    shared = {"class_weight": "balanced", "label_smoothing": 0.1, "epochs": 3}
    warnings = check_student("x", Student(view="v", recipe="textcnn"), shared, context, "data/local/texts.txt")
    assert warnings == [
        f"params.yaml: no effect: train.{key} (a student learns from probabilities)"
        for key in ("class_weight", "label_smoothing")
    ]


def test_a_student_keeps_the_settings_that_need_no_labels() -> None:
    config = TrainingConfig(class_weight="balanced", label_smoothing=0.1, focal_gamma=2.0, fitted_head=True, epochs=3)
    assert config.for_student() == TrainingConfig(epochs=3)


def test_the_folds_of_a_student_have_the_plain_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[TrainingConfig] = []

    def cross_validate(recipe: Any, config: TrainingConfig, *_: Any, **__: Any) -> None:
        seen.append(config)
        raise DataError("seen")

    monkeypatch.setattr(train_and_save, "cross_validate", cross_validate)
    config = TrainingConfig(class_weight="balanced")
    origin: Any = SimpleNamespace(view=view_of(2), config=config, seed=0, recipe=None, pretrained=None)
    for targets in (TEXTS, None):
        with pytest.raises(DataError, match="seen"):
            train_and_save.train_and_save("x", "students", origin, tmp_path / "0", targets)
    assert [each.class_weight for each in seen] == ["none", "balanced"]
