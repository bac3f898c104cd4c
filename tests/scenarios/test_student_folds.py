"""Students of data whose train has folds: their score does not come from a teacher that has seen the fold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from epigram.core.files import read_arrays
from epigram.evaluation.records.results import read_evaluation
from epigram.evaluation.tuning.temperature import fit_temperature
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.models.manifest import TrainingFacts
from epigram.models.serialization import load
from epigram.models.settings import System
from epigram.training.cross_validation import cross_validate
from epigram.training.system_setup import ModelSetup, read_setup
from tests.support.bad_input import Workshop
from tests.support.certain import (
    FILLERS,
    LABELS,
    SYSTEMS,
    WORD,
    compare,
    run_systems,
    run_to_train,
    several_labels,
    text_of,
)

FOLDS, TRAIN = 3, 120
SLANG = {"money": "wonga", "arts": "easel", "sport": "footie"}  # only in texts without labels, beside the known words
TEACHER = "runs/first/model"
STUDENT: dict[str, Any] = {"view": "token", **SYSTEMS["textcnn"], "recipe": "textcnn", "teacher": TEACHER}
AVERAGE: dict[str, Any] = {
    "view": "token",
    "recipe": "fast_text",
    "teacher": TEACHER,
    "train": {"epochs": 12, "learning_rate": 0.02, "batch_size": 16},
}


def workshop(
    root: Path, rows: list[dict[str, Any]], texts: list[str], *, task: str = "single", **systems: Any
) -> Workshop:
    """Return a shop with `rows`, the `texts` without labels, and the `systems`, the first of which is the teacher.

    All stages have been run.
    """
    shop = Workshop(root)
    content = "".join(json.dumps(row) + "\n" for row in rows)
    read = {"reader": "jsonl", "split": "split"}
    shop.source(content, suffix="jsonl", language="en", read=read, labels=LABELS, folds=FOLDS, task=task)
    (root / "data/local/more.txt").write_text("\n".join(texts) + "\n")
    shop.params(views={"token": {"tokenizer": "token", "texts": "data/local/more.txt"}}, systems=systems)
    run_to_train(shop)
    teacher, *students = systems
    run_systems(shop, [teacher])
    shutil.copytree(root / f"data/pruned/{teacher}/seed-0", root / TEACHER)
    run_systems(shop, students)
    return shop


def share_right(folder: Path, rows: list[dict[str, Any]]) -> float:
    """Return the accuracy of a model on the training texts."""
    train = [row for row in rows if row["split"] == "train"]
    predicted = open_predictor(folder).predict(row["text"] for row in train)
    return float(np.mean([each.label == row["label"] for each, row in zip(predicted, train, strict=True)]))


def test_the_score_of_a_student_does_not_come_from_a_teacher_that_knows_the_fold(tmp_path: Path) -> None:
    """Each text has a word of its own and a random label, so that only a model that has seen the text knows it.

    The texts without labels are almost the same, and the teacher has learned their labels. So has the student, but not
    its predictions for the folds. No fold gets better, so the cross-validation alone would choose a short training.
    """
    draw = np.random.default_rng(5)
    rows = [
        {"text": f"own{n} own{n} own{n}", "label": LABELS[draw.integers(3)], "split": split}
        for n, split in enumerate(["train"] * TRAIN + ["test"] * 9)
    ]
    svm = {"view": "token", "model": {"orders": [1]}}
    shop = workshop(tmp_path, rows, [f"own{n} own{n}" for n in range(TRAIN)], tfidf_svm=svm, copies=STUDENT)
    student = tmp_path / "data/pruned/copies/seed-0"
    assert share_right(tmp_path / TEACHER, rows) > 0.95
    assert share_right(student, rows) > 0.9
    assert read_evaluation(shop.root / "data/evaluated/copies").metrics.dev.accuracy < 0.6
    assert TrainingFacts.read(student).epoch == STUDENT["train"]["epochs"]


@pytest.fixture(scope="module")
def slang(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Training texts have the word of their label; those of test have the slang word instead."""
    draw = np.random.default_rng(9)
    rows = [
        {"text": text_of([words[label]], draw), "label": label, "split": split}
        for split, words, size in (("train", WORD, 30), ("test", SLANG, 10))
        for label in LABELS * size
    ]
    texts = [text_of([WORD[label], SLANG[label]], draw) for label in LABELS * 60]
    shop = workshop(tmp_path_factory.mktemp("slang"), rows, texts, textcnn=SYSTEMS["textcnn"], student=AVERAGE)
    compare(shop)
    return shop


def test_the_student_knows_words_that_only_texts_without_labels_have(slang: Workshop) -> None:
    assert read_evaluation(slang.root / "data/evaluated/student").metrics.test.accuracy > 0.9
    assert read_evaluation(slang.root / "data/evaluated/textcnn").metrics.test.accuracy < 0.6
    texts = [f"{FILLERS[0]} {SLANG[label]} {FILLERS[1]}" for label in LABELS]
    predictor = open_predictor(slang.root / "data/pruned/student/seed-0")
    assert [each.label for each in predictor.predict(texts)] == LABELS


def test_the_targets_have_the_temperature_of_the_teacher(slang: Workshop) -> None:
    assert abs(np.log(float(load(slang.root / TEACHER).model.temperature))) > 0.05
    (kept,) = (slang.root / ".epigram/taught").glob("*.safetensors")
    texts = (slang.root / "data/local/more.txt").read_text().splitlines()
    wanted = open_predictor(slang.root / TEACHER).probabilities(list(dict.fromkeys(texts)))
    assert read_arrays(kept)["probabilities"] == pytest.approx(wanted, abs=1e-6)


def test_the_student_keeps_the_temperature_of_what_it_learned(slang: Workshop) -> None:
    """Students that learn labels alone have others: in each fold, the one that fits the labels of the other folds."""
    folder, encoded = slang.root / "data/pruned/student/seed-0", slang.root / "data/encoded/token"
    assert float(load(folder).model.temperature) == 1.0
    setup = read_setup("student", System(**AVERAGE), {}, "auto", encoded, slang.root / "data/pretrained/token")
    raw = cross_validate(ModelSetup(**vars(setup), seed=0)).predicted.logits
    gold, fold = setup.view.split("train").labels[:, None] == np.arange(3), setup.view.fold_numbers()
    saved = load_file(folder / "out_of_fold.safetensors")["logits"]
    for number in range(FOLDS):
        own = fold == number
        temperature = fit_temperature(raw[~own], gold[~own], multi=False)
        assert abs(np.log(temperature)) > 0.05
        np.testing.assert_allclose(saved[own], raw[own] / temperature, rtol=1e-3)


def test_the_student_is_not_ranked_by_the_score_of_the_folds(slang: Workshop) -> None:
    summary = json.loads((slang.root / "data/report/summary.json").read_text())
    assert summary["chosen_system"] == "textcnn"
    assert (summary["rows"][-1]["system"], summary["rows"][-1]["outcome"]) == ("student", "unranked")
    assert "models that learned labels alone" in (slang.root / "data/report/report.html").read_text()


def test_a_student_of_several_labels_has_the_thresholds_of_its_teacher_and_is_scored_with_them(tmp_path: Path) -> None:
    """Students of labels alone, which predict the folds, have other ones."""
    rows = [row for n, split in enumerate(("train", "test")) for row in several_labels(split, n)]
    texts = [row["text"] for row in several_labels("train", 7)]
    workshop(tmp_path, rows, texts, task="multi", tfidf_svm=SYSTEMS["tfidf_svm"], student=AVERAGE)
    folder, wanted = tmp_path / "data/pruned/student/seed-0", load(tmp_path / TEACHER).thresholds
    metrics = read_evaluation(tmp_path / "data/evaluated/student").metrics
    assert load(folder).thresholds == wanted
    assert metrics.seeds[0].thresholds == wanted
    predicted = open_predictor(folder).predict([row["text"] for row in rows if row["split"] == "test"])
    given = [set(each.labels) for each in predicted]
    gold = [set(row["label"]) for row in rows if row["split"] == "test"]
    hits = sum(len(a & b) for a, b in zip(given, gold, strict=True))
    assert metrics.test_score.value == pytest.approx(2 * hits / (sum(map(len, given)) + sum(map(len, gold))))
