"""Students: all stages on a small corpus whose texts without labels have words that train lacks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.files import read_arrays, write_arrays
from epigram.evaluation.results import read_evaluation
from epigram.evaluation.student_record import StudentRecord
from epigram.inference.open_predictor import open_predictor
from epigram.models.manifest import TrainingFacts
from tests.support.bad_input import Workshop
from tests.support.certain import FILLERS, LABELS, WORD, compare, run, run_systems, run_to_train, text_of

SLANG = {"money": "wonga", "arts": "easel", "sport": "footie"}  # only in texts without labels, beside the known words
SEEDS = [3, 5]
STUDENT: dict[str, Any] = {
    "view": "token",
    "recipe": "textcnn",
    "encoder": {"embedding": 16, "filters": 16, "dropout": 0.0},
    "head": {"dropout": 0.0},
    "train": {"epochs": 12, "learning_rate": 0.02, "batch_size": 16},
}
STAGE = ("distill", "student", "data/encoded/token", "data/pretrained/token", "data/evaluated", "data/ensemble")


def rows_of(split: str, seed: int, size: int) -> list[dict[str, str]]:
    """Return texts with the word of their label; those of dev and test have the slang word instead."""
    draw, words = np.random.default_rng(seed), WORD if split == "train" else SLANG
    labels = [LABELS[n % 3] for n in range(size)]
    return [{"text": text_of([words[label]], draw), "label": label, "split": split} for label in labels]


def further() -> list[str]:
    draw = np.random.default_rng(9)
    return [text_of([WORD[label], SLANG[label]], draw) for label in LABELS * 60]


def workshop(root: Any, **sections: Any) -> Workshop:
    shop = Workshop(root)
    rows = [
        row
        for n, (split, size) in enumerate({"train": 90, "dev": 30, "test": 30}.items())
        for row in rows_of(split, n, size)
    ]
    shop.source(
        "".join(json.dumps(row) + "\n" for row in rows),
        suffix="jsonl",
        language="en",
        read={"reader": "jsonl", "split": "split"},
        labels=LABELS,
    )
    known = [row["text"] for row in rows if row["split"] == "train"][:4]
    held_out = [row["text"] for row in rows if row["split"] != "train"][:7]
    (root / "data/local/more.txt").write_text("\n".join([*held_out, *further(), *known]) + "\n")
    views = {"token": {"tokenizer": "token", "texts": "data/local/more.txt"}}
    systems = {"tfidf_svm": {"view": "token", "model": {"orders": [1]}}}
    shop.params(**{"seeds": SEEDS, "views": views, "systems": systems, "students": {"student": STUDENT}, **sections})
    return shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    shop = workshop(tmp_path_factory.mktemp("students"))
    run_to_train(shop)
    run_systems(shop, ["tfidf_svm"])
    ensemble = ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble")
    run(shop, ensemble, (*STAGE, "data/pruned", "data/students/student"))
    run(
        shop,
        (
            "evaluate",
            "student",
            "data/validated",
            "data/encoded/token",
            "data/students/student",
            "data/evaluated_students/student",
        ),
    )
    compare(shop)
    return shop


def test_the_student_knows_words_that_only_texts_without_labels_have(shop: Workshop) -> None:
    """No training text has them, so that a system that learns from labels alone guesses."""
    student = read_evaluation(shop.root / "data/evaluated_students/student").metrics
    assert student.test.accuracy == 1.0
    assert read_evaluation(shop.root / "data/evaluated/tfidf_svm").metrics.test.accuracy < 0.6


def test_the_record_names_the_teacher_and_counts_the_texts(shop: Workshop) -> None:
    record = StudentRecord.read(shop.root / "data/students/student")
    assert record == StudentRecord(
        teacher="tfidf_svm", labelled=90, folds=0, label_weight=1.0, unlabelled=len(set(further())), held_out=7, known=4
    )
    assert "7" in (shop.root / "data/report/report.html").read_text().split("<h3>Students</h3>")[1][:2_000]


def test_no_text_of_dev_or_test_is_learned(shop: Workshop) -> None:
    texts = set(pl.read_parquet(shop.root / "data/encoded/token/unlabelled.parquet")["text"])
    for split in ("dev", "test"):
        assert not texts & set(pl.read_parquet(shop.root / f"data/validated/{split}.parquet")["text"])


def test_each_seed_has_the_teacher_of_the_same_seed(shop: Workshop) -> None:
    taught = [TrainingFacts.read(shop.root / f"data/students/student/seed-{seed}") for seed in SEEDS]
    assert [each.seed for each in taught] == SEEDS
    assert len({each.provenance["teacher"] for each in taught}) == 2


def test_the_comparison_ranks_the_student_and_copies_its_model(shop: Workshop) -> None:
    summary = json.loads((shop.root / "data/report/summary.json").read_text())
    assert summary["chosen_system"] == "student"
    assert {row["system"] for row in summary["rows"]} >= {"student", "tfidf_svm"}
    chosen = open_predictor(shop.root / "data/report/chosen")
    texts = [f"{FILLERS[0]} {SLANG[label]} {FILLERS[1]}" for label in LABELS]
    assert [each.label for each in chosen.predict(texts)] == LABELS


@pytest.mark.parametrize(
    ("student", "views", "said"),
    [
        ({}, {"token": {"tokenizer": "token"}}, ("views.token.texts",)),
        ({"recipe": "cnle", "encoder": {}, "head": {}, "train": {}}, None, ("the head", "fast_text")),
        ({"recipe": "tfidf_svm", "encoder": {}, "head": {}, "train": {}}, None, ("not trained by gradient descent",)),
        ({"train": {"class_weight": "balanced"}}, None, ("students.student.train.class_weight", "no effect")),
        ({"train": {"epoch": 3}}, None, ("students.student.train", "epochs")),
        ({"recipe": "textcn"}, None, ("students.student.recipe", "textcnn")),
    ],
)
def test_a_student_that_cannot_learn_is_refused(tmp_path: Any, student: Any, views: Any, said: tuple[str, ...]) -> None:
    from epigram.core.errors import ParameterError
    from epigram.runner.workspace.overrides import check_systems

    sections = {"students": {"student": STUDENT | student}} | ({} if views is None else {"views": views})
    shop = workshop(tmp_path, **sections)
    with pytest.raises(ParameterError) as refusal:
        check_systems(shop.root / "params.yaml")
    assert all(words in str(refusal.value) for words in said), str(refusal.value)


def test_data_with_labels_of_words_only_have_no_students(tmp_path: Any) -> None:
    """They are refused before a stage runs, and by the stage itself, because `dvc repro` makes no such check."""
    from epigram.core.errors import ParameterError
    from epigram.runner.workspace.overrides import check_systems

    shop = workshop(tmp_path)
    rows = [
        {**row, "text": f"{WORD[label]} {row['text']}", "spans": [[0, len(WORD[label]), label]]}
        for row, label in zip(rows_of("train", 0, 60), LABELS * 20, strict=True)
    ]
    shop.source(
        "".join(json.dumps(row) + "\n" for row in rows),
        suffix="jsonl",
        language="en",
        task="tokens",
        read={"reader": "jsonl", "spans": "spans"},
    )
    with pytest.raises(ParameterError, match=r"students\.student learns labels of texts, .* only labels of words"):
        check_systems(shop.root / "params.yaml")
    run_to_train(shop)
    shop.stage(*STAGE, "data/pruned", "data/out").refused(64, "students.student", "only labels of words")


@pytest.mark.parametrize(("name", "said"), [("tfidf_svm", "a system has this name"), ("ensemble", "reserved")])
def test_the_name_of_a_student_is_its_own(tmp_path: Any, name: str, said: str) -> None:
    shop = workshop(tmp_path, students={name: STUDENT})
    shop.stage(*STAGE, "data/pruned", "data/out").refused(64, f"students.{name}", said)


def test_the_students_of_a_view_share_the_predictions_of_their_teacher(shop: Workshop) -> None:
    """A second student reads them: with other ones in their place, it learns those."""
    kept = sorted((shop.root / ".epigram/taught").glob("*.safetensors"))
    assert len(kept) == len(SEEDS)
    written = {path: path.read_bytes() for path in kept}
    for path in kept:
        probabilities = read_arrays(path)["probabilities"]
        write_arrays(path, {"probabilities": np.roll(probabilities, 1, axis=1)})
    run(shop, (*STAGE, "data/pruned", "data/again"))
    for path, content in written.items():
        path.write_bytes(content)
    misled = open_predictor(shop.root / "data/again/seed-3")
    texts = [f"{FILLERS[0]} {SLANG[label]} {FILLERS[1]}" for label in LABELS]
    assert [each.label for each in misled.predict(texts)] == LABELS[1:] + LABELS[:1]
