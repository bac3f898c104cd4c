"""Systems with a teacher: all stages on a small corpus whose texts without labels have words that train lacks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError, EpigramError, ParameterError
from epigram.core.files import read_arrays, sha256, write_arrays
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.results import read_evaluation
from epigram.evaluation.records.student_record import StudentRecord, read_students
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.models.manifest import TrainingFacts
from epigram.runner.workspace.overrides import check_systems, check_teachers
from epigram.text.dataset.encoded_dataset import View
from tests.support.bad_input import Workshop
from tests.support.certain import FILLERS, LABELS, WORD, compare, run, run_systems, run_to_train, text_of

SLANG = {"money": "wonga", "arts": "easel", "sport": "footie"}  # only in texts without labels, beside the known words
WRONG = dict(zip(LABELS, LABELS[1:] + LABELS[:1], strict=True))  # what a teacher of other data calls each label
SEEDS = [3, 5]
TEACHER, STRANGER = "runs/first/model", "data/local/stranger"
STUDENT: dict[str, Any] = {
    "view": "token",
    "recipe": "textcnn",
    "teacher": TEACHER,
    "encoder": {"embedding": 16, "filters": 16, "dropout": 0.0},
    "head": {"dropout": 0.0},
    "train": {"epochs": 12, "learning_rate": 0.02, "batch_size": 16},
}
SYSTEMS: dict[str, Any] = {
    "tfidf_svm": {"view": "token", "model": {"orders": [1]}},
    "student": STUDENT,
    "misled": STUDENT | {"teacher": STRANGER},
}
TRAIN = ("train", "student", "data/encoded/token", "data/pretrained/token")
NEW_TEXTS = [f"{FILLERS[0]} {SLANG[label]} {FILLERS[1]}" for label in LABELS]


def rows_of(split: str, seed: int, size: int) -> list[dict[str, str]]:
    """Return texts with the word of their label; those of dev and test have the slang word instead."""
    draw, words = np.random.default_rng(seed), WORD if split == "train" else SLANG
    labels = [LABELS[n % 3] for n in range(size)]
    return [{"text": text_of([words[label]], draw), "label": label, "split": split} for label in labels]


def all_rows() -> list[dict[str, str]]:
    sizes = {"train": 90, "dev": 30, "test": 30}
    return [row for n, (split, size) in enumerate(sizes.items()) for row in rows_of(split, n, size)]


def further() -> list[str]:
    draw = np.random.default_rng(9)
    return [text_of([WORD[label], SLANG[label]], draw) for label in LABELS * 60]


def workshop(root: Path, rows: list[dict[str, str]], **sections: Any) -> Workshop:
    shop = Workshop(root)
    read = {"reader": "jsonl", "split": "split"}
    shop.source(
        "".join(json.dumps(row) + "\n" for row in rows), suffix="jsonl", language="en", read=read, labels=LABELS
    )
    known = [row["text"] for row in rows if row["split"] == "train"][:4]
    held_out = [row["text"] for row in rows if row["split"] != "train"][:7]
    (root / "data/local/more.txt").write_text("\n".join([*held_out, *further(), *known]) + "\n")
    views = {"token": {"tokenizer": "token", "texts": "data/local/more.txt"}}
    shop.params(**{"seeds": SEEDS, "views": views, "systems": SYSTEMS, **sections})
    return shop


def save_teacher(shop: Workshop, path: str, system: str = "tfidf_svm", seed: int = SEEDS[0]) -> Path:
    """Copy a trained model of `shop` to `path`."""
    return Path(shutil.copytree(shop.root / f"data/pruned/{system}/seed-{seed}", shop.root / path))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same texts with other labels."""
    rows = [row | {"label": WRONG[row["label"]]} for row in all_rows()]
    shop = workshop(tmp_path_factory.mktemp("stranger"), rows)
    run_to_train(shop)
    run_systems(shop, ["tfidf_svm"])
    return shop.root / f"data/pruned/tfidf_svm/seed-{SEEDS[0]}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, stranger: Path) -> Workshop:
    shop = workshop(tmp_path_factory.mktemp("students"), all_rows())
    shutil.copytree(stranger, shop.root / STRANGER)
    run_to_train(shop)
    run_systems(shop, ["tfidf_svm"])
    save_teacher(shop, TEACHER)
    run_systems(shop, ["student", "misled"])
    compare(shop)
    return shop


def test_the_student_knows_words_that_only_texts_without_labels_have(shop: Workshop) -> None:
    """No training text has them, so that a system that learns from labels alone guesses."""
    assert read_evaluation(shop.root / "data/evaluated/student").metrics.test.accuracy == 1.0
    assert read_evaluation(shop.root / "data/evaluated/tfidf_svm").metrics.test.accuracy < 0.6


def test_a_teacher_with_wrong_labels_moves_its_student(shop: Workshop) -> None:
    misled = open_predictor(shop.root / "data/pruned/misled/seed-3")
    assert [each.label for each in misled.predict(NEW_TEXTS)] == [WRONG[label] for label in LABELS]


def test_the_record_names_the_teacher_and_counts_the_texts(shop: Workshop) -> None:
    about = {"labelled": 90, "unlabelled": len(set(further())), "held_out": 7, "known": 4}
    assert read_students(shop.root / "data/pruned", SYSTEMS) == {
        "student": StudentRecord(teacher=TEACHER, label_weight=0.5, **about),
        "misled": StudentRecord(teacher=STRANGER, label_weight=1.0, unranked="data", **about),
    }
    section = (shop.root / "data/report/report.html").read_text().split("<h3>Students</h3>")[1].partition("</table>")[0]
    assert "<td>runs/first/model</td>" in section and '<td class="number">0.50</td>' in section


def test_no_text_of_dev_or_test_is_learned(shop: Workshop) -> None:
    texts = set(pl.read_parquet(shop.root / "data/encoded/token/unlabelled.parquet")["text"])
    for split in ("dev", "test"):
        assert not texts & set(pl.read_parquet(shop.root / f"data/validated/{split}.parquet")["text"])


def test_the_models_of_all_seeds_name_their_teacher(shop: Workshop) -> None:
    taught = [TrainingFacts.read(shop.root / f"data/pruned/student/seed-{seed}") for seed in SEEDS]
    assert [each.seed for each in taught] == SEEDS
    assert {each.provenance["teacher"] for each in taught} == {sha256(shop.root / TEACHER / "manifest.json")}


def test_a_student_of_a_stranger_is_a_stranger_itself(shop: Workshop) -> None:
    """It knows what its teacher knows, which may include dev and test."""
    rows = View.load(shop.root / "data/encoded/token").rows_digest
    found = {
        name: TrainingFacts.read(shop.root / f"data/pruned/{name}/seed-3").provenance.get("rows") for name in SYSTEMS
    }
    assert found == {"tfidf_svm": rows, "student": rows, "misled": None}


def test_the_comparison_ranks_the_student_and_copies_its_model(shop: Workshop) -> None:
    summary = json.loads((shop.root / "data/report/summary.json").read_text())
    assert summary["chosen_system"] == "student"
    assert [(row["system"], row["outcome"]) for row in summary["rows"]][-1] == ("misled", "unranked")
    assert summary["notes"][-1].startswith("Not ranked: misled. The teacher was trained on other data")
    chosen = open_predictor(shop.root / "data/report/chosen")
    assert [each.label for each in chosen.predict(NEW_TEXTS)] == LABELS


def test_an_unranked_student_is_no_member_of_the_ensemble(shop: Workshop) -> None:
    """On dev, it could seem better than it is: here as good as the best."""
    evaluated = shop.root / "data/evaluated_again"
    shutil.copytree(shop.root / "data/evaluated", evaluated)
    shutil.rmtree(evaluated / "misled")
    shutil.copytree(evaluated / "student", evaluated / "misled")
    folders = ("data/evaluated_again", "data/pruned", "data/ensemble_again")
    run(shop, ("ensemble", "data/validated", *folders))
    members = EnsembleRecord.read(shop.root / "data/ensemble_again").members
    assert "misled" not in [each.system for each in members]


@pytest.mark.parametrize(
    ("student", "views", "said"),
    [
        ({}, {"token": {"tokenizer": "token"}}, ("views.token.texts",)),
        ({"train": {"class_weight": "balanced"}}, None, ("systems.student.train.class_weight", "no effect")),
        ({"teacher": None, "label_weight": 0.7}, None, ("label_weight", "no effect without a teacher")),
        ({"teacher": "runs/latest/model"}, None, ("systems.student.teacher", "runs/latest changes with every run")),
        ({"teacher": "runs/champion/model"}, None, ("runs/champion changes",)),
        ({"teacher": "data/local/link"}, None, ("data/local/link", "runs/latest changes")),
        ({"teacher": "runs/first"}, None, ("runs/first", "expected a saved model, data/local/FOLDER or runs/NAME/m")),
        ({"teacher": "runs/../model"}, None, ("expected a saved model",)),
        ({"teacher": "/tmp/model"}, None, ("expected a saved model",)),
        ({"teacher": "runs/other/model"}, None, ("runs/other/model", "does not exist")),
    ],
)
def test_a_student_that_cannot_learn_is_refused(tmp_path: Any, student: Any, views: Any, said: tuple[str, ...]) -> None:
    systems = {"tfidf_svm": SYSTEMS["tfidf_svm"], "student": STUDENT | student}
    shop = workshop(tmp_path, all_rows(), systems=systems, **({} if views is None else {"views": views}))
    (tmp_path / "runs/first").mkdir(parents=True)
    (tmp_path / "runs/first/model").mkdir()
    (tmp_path / "runs/latest").symlink_to("first")
    (tmp_path / "data/local/link").symlink_to("../../runs/latest/model")
    with pytest.raises(EpigramError) as refusal:
        check_systems(shop.root / "params.yaml")
        check_teachers(shop.root / "params.yaml")
    assert all(words in str(refusal.value) for words in said), str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_data_with_labels_of_words_only_have_no_students(tmp_path: Any) -> None:
    """They are refused before a stage runs, and by the stage itself, because `dvc repro` makes no such check."""
    shop = workshop(tmp_path, all_rows())
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
    with pytest.raises(ParameterError, match=r"systems\.student has a teacher of text labels, .* only labels of words"):
        check_systems(shop.root / "params.yaml")
    run_to_train(shop)
    shop.stage(*TRAIN, "data/out").refused(64, "systems.student", "only labels of words")


def test_the_students_of_a_view_share_the_predictions_of_their_teacher(shop: Workshop) -> None:
    """A second student reads them: with other ones in their place, it learns those."""
    kept = sorted((shop.root / ".epigram/taught").glob("*.safetensors"))
    assert len(kept) == 2  # of the two teachers
    own = next(path for path in kept if len(read_arrays(path)["probabilities"]) > len(set(further())))
    written = own.read_bytes()
    write_arrays(own, {"probabilities": np.roll(read_arrays(own)["probabilities"], 1, axis=1)})
    try:
        run(shop, (*TRAIN, "data/again"))
    finally:
        own.write_bytes(written)
    misled = open_predictor(shop.root / "data/again/seed-3")
    assert [each.label for each in misled.predict(NEW_TEXTS)] == LABELS[1:] + LABELS[:1]


@pytest.mark.parametrize("path", [TEACHER, STRANGER])
def test_a_damaged_teacher_is_refused_before_a_run_and_by_the_stage(shop: Workshop, path: str) -> None:
    name, file = "student" if path == TEACHER else "misled", shop.root / path / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        with pytest.raises(DataError, match=r"model\.safetensors was changed after the model was saved"):
            check_teachers(shop.root / "params.yaml")
        stage = shop.stage("train", name, "data/encoded/token", "data/pretrained/token", "data/out")
        stage.refused(65, f"{path}/model.safetensors was changed")
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("change", ["another model", "a damaged file"])
def test_a_changed_teacher_in_data_local_changes_the_encoded_view(shop: Workshop, change: str) -> None:
    """The train stage of its students depends on it."""
    encode = ("encode", "token", "data/validated", "data/augmented", "data/pos", "data/again_encoded")
    run(shop, encode)
    before = View.load(shop.root / "data/again_encoded")
    assert before.fingerprint == View.load(shop.root / "data/encoded/token").fingerprint
    folder, aside = shop.root / STRANGER, shop.root / "stranger"
    shutil.copytree(folder, aside)
    try:
        if change == "a damaged file":
            (folder / "labels.json").write_text("[]")
        else:
            shutil.rmtree(folder)
            save_teacher(shop, STRANGER, seed=SEEDS[1])
        run(shop, encode)
        assert View.load(shop.root / "data/again_encoded").fingerprint != before.fingerprint
    finally:
        shutil.rmtree(folder)
        aside.rename(folder)


def test_another_teacher_in_its_place_is_learned_or_refused(shop: Workshop) -> None:
    """The stage uses no progress and no prediction of the teacher before. A run of `epigram` would not start it."""
    shutil.copytree(shop.root / TEACHER, shop.root / "first")
    shutil.rmtree(shop.root / TEACHER)
    shutil.copytree(shop.root / STRANGER, shop.root / TEACHER)
    try:
        run(shop, (*TRAIN, "data/again"))
        misled = open_predictor(shop.root / "data/again/seed-3")
        assert [each.label for each in misled.predict(NEW_TEXTS)] == [WRONG[label] for label in LABELS]
        with pytest.raises(ParameterError, match="'runs/first/model', where another model was when student"):
            check_teachers(shop.root / "params.yaml")
    finally:
        shutil.rmtree(shop.root / TEACHER)
        (shop.root / "first").rename(shop.root / TEACHER)
    check_teachers(shop.root / "params.yaml")
