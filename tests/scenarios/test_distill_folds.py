"""Students of data whose train has folds: no training text has a target of a model that has seen its label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from epigram.core.files import read_arrays
from epigram.evaluation.results import read_evaluation
from epigram.evaluation.student_record import StudentRecord
from epigram.evaluation.temperature import fit_temperature
from epigram.inference.open_predictor import open_predictor
from epigram.models.manifest import TrainingFacts
from epigram.models.serialization import load
from epigram.text.dataset.encoded_dataset import View
from epigram.training.teacher import Teacher, find_teacher
from tests.support.bad_input import Workshop
from tests.support.certain import (
    FILLERS,
    LABELS,
    SYSTEMS,
    WORD,
    compare,
    run,
    run_systems,
    run_to_train,
    several_labels,
    text_of,
)

FOLDS, TRAIN = 3, 120
SLANG = {"money": "wonga", "arts": "easel", "sport": "footie"}  # only in texts without labels, beside the known words
STUDENT: dict[str, Any] = {"view": "token", **SYSTEMS["textcnn"], "recipe": "textcnn"}
AVERAGE = {"view": "token", "recipe": "fast_text", "train": {"epochs": 12, "learning_rate": 0.02, "batch_size": 16}}


def workshop(
    root: Path, rows: list[dict[str, Any]], texts: dict[str, list[str]], *, task: str = "single", **sections: Any
) -> Workshop:
    """Return a shop with `rows`, and with a view for each entry of `texts`, which are its texts without labels."""
    shop = Workshop(root)
    content = "".join(json.dumps(row) + "\n" for row in rows)
    read = {"reader": "jsonl", "split": "split"}
    shop.source(content, suffix="jsonl", language="en", read=read, labels=LABELS, folds=FOLDS, task=task)
    for name, lines in texts.items():
        (root / f"data/local/{name}.txt").write_text("\n".join(lines) + "\n")
    views = {name: {"tokenizer": "token", "texts": f"data/local/{name}.txt"} for name in texts}
    shop.params(views=views, **sections)
    return shop


def distill(shop: Workshop, name: str, view: str = "token") -> None:
    """Train and evaluate the student `name`, after the ensemble."""
    encoded, models = f"data/encoded/{view}", f"data/students/{name}"
    inputs = ("data/evaluated", "data/ensemble", "data/pruned")
    run(
        shop,
        ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"),
        ("distill", name, encoded, f"data/pretrained/{view}", *inputs, models),
        ("evaluate", name, "data/validated", encoded, models, f"data/evaluated_students/{name}"),
    )


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Each text has a word of its own and a random label, so that only a model that has seen the text knows it.

    The view `copies` has almost the same texts without labels, whose labels the teacher has learned as well.
    """
    draw = np.random.default_rng(5)
    rows = [
        {"text": f"own{n} own{n} own{n}", "label": LABELS[draw.integers(3)], "split": split}
        for n, split in enumerate(["train"] * TRAIN + ["test"] * 9)
    ]
    texts = {"token": [text_of([], draw) for _ in range(60)], "copies": [f"own{n} own{n}" for n in range(TRAIN)]}
    systems = {"tfidf_svm": {"view": "token", "model": {"orders": [1]}}}
    students = {
        "soft": STUDENT | {"label_weight": 0.0},
        "hard": STUDENT | {"label_weight": 1.0},
        "copies": STUDENT | {"view": "copies"},
    }
    shop = workshop(tmp_path_factory.mktemp("memory"), rows, texts, systems=systems, students=students)
    run_to_train(shop)
    run(
        shop,
        ("encode", "copies", "data/validated", "data/augmented", "data/pos", "data/encoded/copies"),
        ("pretrain", "copies", "data/encoded/copies", "data/pretrained/copies"),
    )
    run_systems(shop, ["tfidf_svm"])
    for name, student in students.items():
        distill(shop, name, student["view"])
    return shop


def teacher_of(shop: Workshop, *systems: str) -> Teacher:
    data = shop.root / "data"
    return find_teacher(systems, data / "evaluated", data / "ensemble", data / "pruned")


def share_right(shop: Workshop, folder: Path) -> float:
    """Return the accuracy of a model on the training texts."""
    view = View.load(shop.root / "data/encoded/token")
    rows, labels = view.split("train").rows.tolist(), view.split("train").labels
    predicted = open_predictor(folder).probabilities([f"own{n} own{n} own{n}" for n in rows]).argmax(1)
    return float((predicted == labels).mean())


def test_the_targets_do_not_know_what_the_teacher_has_memorized(memory: Workshop) -> None:
    teacher, view = teacher_of(memory, "tfidf_svm"), View.load(memory.root / "data/encoded/token")
    assert share_right(memory, teacher.manifest(0).parent) > 0.95
    assert (teacher.out_of_fold(view, 0).argmax(1) == view.split("train").labels).mean() < 0.6


def test_a_student_without_labels_does_not_learn_what_only_labels_tell(memory: Workshop) -> None:
    assert share_right(memory, memory.root / "data/students/soft/seed-0") < 0.6
    assert share_right(memory, memory.root / "data/students/hard/seed-0") > 0.9


def test_the_score_of_a_student_does_not_come_from_a_teacher_that_knows_the_fold(memory: Workshop) -> None:
    """The student itself has learned the labels of the copies; its predictions for the folds have not."""
    assert share_right(memory, memory.root / "data/students/copies/seed-0") > 0.9
    for name in ("soft", "hard", "copies"):
        assert read_evaluation(memory.root / f"data/evaluated_students/{name}").metrics.dev.accuracy < 0.6


def test_a_student_is_trained_for_all_epochs_though_the_folds_end_early(memory: Workshop) -> None:
    """No fold gets better, so that the cross-validation alone would choose a short training."""
    for name in ("soft", "hard", "copies"):
        assert TrainingFacts.read(memory.root / f"data/students/{name}/seed-0").epoch == STUDENT["train"]["epochs"]


def test_the_weight_of_the_labels_is_recorded(memory: Workshop) -> None:
    folders = [memory.root / f"data/students/{name}" for name in ("soft", "hard", "copies")]
    assert [StudentRecord.read(folder).label_weight for folder in folders] == [0.0, 1.0, 0.5]
    soft, hard = (TrainingFacts.read(folder / "seed-0").provenance for folder in folders[:2])
    assert soft["parameters"] != hard["parameters"]
    assert soft["teacher"] == hard["teacher"]


@pytest.fixture(scope="module")
def slang(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Training texts have the word of their label; those of test have the slang word instead."""
    draw = np.random.default_rng(9)
    rows = [
        {"text": text_of([words[label]], draw), "label": label, "split": split}
        for split, words, size in (("train", WORD, 30), ("test", SLANG, 10))
        for label in LABELS * size
    ]
    texts = {"token": [text_of([WORD[label], SLANG[label]], draw) for label in LABELS * 60]}
    sections = {"systems": {"textcnn": SYSTEMS["textcnn"]}, "students": {"student": AVERAGE}}
    shop = workshop(tmp_path_factory.mktemp("slang"), rows, texts, **sections)
    run_to_train(shop)
    run_systems(shop, ["textcnn"])
    distill(shop, "student")
    compare(shop)
    return shop


def test_the_student_knows_words_that_only_texts_without_labels_have(slang: Workshop) -> None:
    assert read_evaluation(slang.root / "data/evaluated_students/student").metrics.test.accuracy > 0.9
    assert read_evaluation(slang.root / "data/evaluated/textcnn").metrics.test.accuracy < 0.6
    texts = [f"{FILLERS[0]} {SLANG[label]} {FILLERS[1]}" for label in LABELS]
    predictor = open_predictor(slang.root / "data/students/student/seed-0")
    assert [each.label for each in predictor.predict(texts)] == LABELS


def test_the_targets_have_the_temperature_of_the_teacher(slang: Workshop) -> None:
    teacher, view = teacher_of(slang, "textcnn"), View.load(slang.root / "data/encoded/token")
    folder = teacher.manifest(0).parent
    assert abs(np.log(float(load(folder).model.temperature))) > 0.05
    (kept,) = (slang.root / ".epigram/taught").glob("*.safetensors")
    texts = (slang.root / "data/local/token.txt").read_text().splitlines()
    wanted = open_predictor(folder).probabilities(list(dict.fromkeys(texts)))
    assert read_arrays(kept)["probabilities"] == pytest.approx(wanted, abs=1e-6)
    logits = load_file(folder / "out_of_fold.safetensors")["logits"].astype(float)
    calibrated = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert teacher.out_of_fold(view, 0) == pytest.approx(calibrated, abs=1e-6)


def test_the_student_keeps_the_temperature_of_what_it_learned(slang: Workshop) -> None:
    """Students that learn labels alone have another one, which is that of the predictions for the folds."""
    folder, view = slang.root / "data/students/student/seed-0", View.load(slang.root / "data/encoded/token")
    assert float(load(folder).model.temperature) == 1.0
    gold = view.split("train").labels[:, None] == np.arange(3)
    logits = load_file(folder / "out_of_fold.safetensors")["logits"]
    assert fit_temperature(logits, gold, multi=False) == pytest.approx(1.0, abs=0.01)


def test_the_report_says_what_the_score_of_the_folds_is(slang: Workshop) -> None:
    page = (slang.root / "data/report/report.html").read_text()
    section = page.split("<h3>Students</h3>")[1].partition("</table>")[0]
    assert "students that learned labels alone" in section
    assert '<td class="number">0.50</td>' in section


def test_the_student_is_not_ranked_by_the_score_of_the_folds(slang: Workshop) -> None:
    summary = json.loads((slang.root / "data/report/summary.json").read_text())
    assert summary["chosen_system"] == "textcnn"
    assert (summary["rows"][-1]["system"], summary["rows"][-1]["outcome"]) == ("student", "unranked")


def test_a_student_of_several_labels_has_the_thresholds_of_its_teacher_and_is_scored_with_them(tmp_path: Path) -> None:
    """Students of labels alone, which predict the folds, have other ones."""
    rows = [row for n, split in enumerate(("train", "test")) for row in several_labels(split, n)]
    texts = {"token": [row["text"] for row in several_labels("train", 7)]}
    sections = {"systems": {"tfidf_svm": SYSTEMS["tfidf_svm"]}, "students": {"student": AVERAGE}}
    shop = workshop(tmp_path, rows, texts, task="multi", **sections)
    run_to_train(shop)
    run_systems(shop, ["tfidf_svm"])
    distill(shop, "student")
    teacher, view = teacher_of(shop, "tfidf_svm"), View.load(shop.root / "data/encoded/token")
    folder, evaluation = shop.root / "data/students/student/seed-0", shop.root / "data/evaluated_students/student"
    wanted, metrics = teacher.thresholds(view, 0), read_evaluation(evaluation).metrics
    assert load(folder).thresholds == wanted
    assert metrics.seeds[0].thresholds == wanted
    predicted = open_predictor(folder).predict([row["text"] for row in rows if row["split"] == "test"])
    given = [set(each.labels) for each in predicted]
    gold = [set(row["label"]) for row in rows if row["split"] == "test"]
    hits = sum(len(a & b) for a, b in zip(given, gold, strict=True))
    assert metrics.test_score.value == pytest.approx(2 * hits / (sum(map(len, given)) + sum(map(len, gold))))
