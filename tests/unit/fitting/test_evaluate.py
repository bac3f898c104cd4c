"""Scores of a saved model on texts with labels: known answers, which rows count, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sklearn.metrics import accuracy_score, f1_score

import epigram
from epigram.cli.app import app
from epigram.core.errors import DataError, ParameterError
from epigram.inference.predictors.base_predictor import BasePredictor
from tests.support.linear_models import SEVERAL, TRAIN, svm

TEXTS = ["nice soup", "soup soup", "large room", "soup soup", "large room", " "]
GOLD = ["food", "food", "room", "room", "room", "food"]  # the fourth is predicted as food; the last one has no text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> BasePredictor:
    return epigram.load(svm(tmp_path_factory.mktemp("svm"), "en", TRAIN["en"]))


def table(folder: Path, *rows: str) -> Path:
    file = folder / "rows.csv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def test_the_scores_are_scikit_learn_s_and_an_empty_text_does_not_count(model: BasePredictor) -> None:
    found = epigram.evaluate(model, TEXTS, GOLD)
    predicted = [each.label for each in model.predict(TEXTS[:5])]
    assert predicted == ["food", "food", "room", "food", "room"]
    assert found.rows == 5
    assert found.scores["accuracy"].value == pytest.approx(accuracy_score(GOLD[:5], predicted)) == pytest.approx(0.8)
    assert found.scores["macro_f1"].value == pytest.approx(f1_score(GOLD[:5], predicted, average="macro"))
    assert found.scores["weighted_f1"].value == pytest.approx(f1_score(GOLD[:5], predicted, average="weighted"))
    assert 0.2 <= found.scores["accuracy"].low < 0.8 < found.scores["accuracy"].high == 1.0
    rows = {one.label: (round(one.precision, 3), round(one.recall, 3), one.support) for one in found.labels}
    assert rows == {"food": (0.667, 1.0, 2), "room": (1.0, 0.667, 3), "staff": (0.0, 0.0, 0)}
    assert sorted(found.confusion) == [("food", "food", 2), ("room", "food", 1), ("room", "room", 2)]


def test_a_model_with_several_labels_is_scored_by_what_it_predicts(tmp_path: Path) -> None:
    several = epigram.load(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    texts = ["nice soup", "large room", "soup room"]
    predicted = [each.labels for each in several.predict(texts)]
    right = epigram.evaluate(several, texts, predicted)
    assert list(right.scores) == ["micro_f1", "macro_f1", "accuracy"]
    assert right.scores["micro_f1"].value == right.scores["accuracy"].value == 1.0
    gold = [[*names[1:], *({*several.labels} - {*names})] for names in predicted]  # one of the right ones is missing
    assert epigram.evaluate(several, texts, gold).scores["micro_f1"].value < 1.0
    assert right.confusion == []


def test_texts_of_one_label_have_the_scores_that_are_defined(model: BasePredictor, tmp_path: Path) -> None:
    file = table(tmp_path, "text,label", "large room,room", "soup soup,room", "nice room,room")
    predicted = [each.label for each in model.predict(["large room", "soup soup", "nice room"])]
    found = epigram.evaluate(model, file)
    assert predicted == ["room", "food", "room"]
    assert found.scores["accuracy"].value == pytest.approx(2 / 3)
    assert found.scores["macro_f1"].value == pytest.approx(f1_score(["room"] * 3, predicted, average="macro"))
    assert found.scores["weighted_f1"].value == pytest.approx(0.8)
    rows = {one.label: (one.precision, pytest.approx(one.recall), one.support) for one in found.labels}
    assert rows == {"food": (0.0, 0.0, 0), "room": (1.0, 2 / 3, 3), "staff": (0.0, 0.0, 0)}
    assert sorted(found.confusion) == [("room", "food", 1), ("room", "room", 2)]


def test_only_the_rows_of_test_count_in_a_table_with_splits(model: BasePredictor, tmp_path: Path) -> None:
    file = table(tmp_path, "text,label,split", "soup soup,room,train", "nice soup,food,test", "large room,room,test")
    found = epigram.evaluate(model, file)
    assert (found.rows, found.scores["accuracy"].value) == (2, 1.0)
    assert found.notes[-1] == "only the rows of test count: 2"


def test_scores_on_the_file_of_the_fit_are_said_to_be_too_good(tmp_path: Path) -> None:
    rows = [f"{word} {number},{label}" for number in range(20) for word, label in (("soup", "food"), ("bed", "room"))]
    fitted, later = table(tmp_path, "text,label", *rows), tmp_path / "later.csv"
    later.write_text("\n".join(["text,label", *rows[1:]]) + "\n", encoding="utf-8")
    epigram.fit(fitted, budget="1s").save(tmp_path / "model")
    notes = {file: epigram.evaluate(epigram.load(tmp_path / "model"), file).notes for file in (fitted, later)}
    said = "the model was fitted on this file, so the scores are too good for new texts; its report has others"
    assert notes[fitted] == [*notes[later], said]


def test_rows_without_a_label_do_not_count(model: BasePredictor, tmp_path: Path) -> None:
    file = table(tmp_path, "text,label", "nice soup,", "nice soup,food", "large room, ", "large room,room")
    frame = pl.DataFrame({"text": ["nice soup", "large room", "soup"], "label": ["food", "room", None]})
    assert [epigram.evaluate(model, data).rows for data in (file, frame)] == [2, 2]


def test_lists_are_texts_although_the_training_joined_columns_of_a_table(tmp_path: Path) -> None:
    joined = epigram.load(svm(tmp_path, "en", TRAIN["en"]))
    joined.text_columns, joined.join = ["title", "body"], " large room "
    listed = epigram.evaluate(joined, ["nice soup", "large room"], ["food", "room"])
    assert (listed.rows, listed.scores["accuracy"].value) == (2, 1.0)
    # in a table, the columns are joined as in the training: with a space between them, the first text would be food
    rows = {"title": ["soup", "clerk"], "body": ["nice", "nice clerk"], "label": ["room", "staff"]}
    for data in (pl.DataFrame(rows), table(tmp_path, "title,body,label", "soup,nice,room", "clerk,nice clerk,staff")):
        assert sorted(epigram.evaluate(joined, data).confusion) == [("room", "room", 1), ("staff", "staff", 1)]


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["soup"], ["food", "room"], "evaluate: there are 1 texts and 2 labels"),
        (["soup", 5], ["food", "room"], "evaluate: texts has 5; expected strings"),
        (["soup"], [None], "evaluate: the text at 0 has no label"),
        (["soup", "room"], ["food", ["room"]], "evaluate: some labels are lists"),
        ("soup", ["food"], "evaluate: 'soup' is a file, and labels are given"),
        (["soup"], "food", "evaluate: labels is str"),
        (["soup"], None, "evaluate: expected texts with labels"),
        (pl.DataFrame({"text": ["soup"]}), None, "evaluate: the frame has no column 'label'"),
    ],
)
def test_a_message_names_what_the_caller_called(model: BasePredictor, texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=f"^{message}"):
        epigram.evaluate(model, texts, labels)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["text,label", "nice soup,food", "large room,attic"],
            "the model has no label attic; its labels are food, room",
        ),
        (
            ["text,label,split", "nice soup,food,train", "large room,room,train"],
            "there is no text with a label to score",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(model: BasePredictor, rows: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        epigram.evaluate(model, table(tmp_path, *rows))


def test_the_command_prints_lines_or_json(
    model: BasePredictor, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = table(tmp_path, "review,stars", *(f"{text},{label}" for text, label in zip(TEXTS[:5], GOLD, strict=False)))

    def run(*more: str) -> str:
        app(["evaluate", str(model.folder), str(file), "--text", "review", "--label", "stars", *more])
        return capsys.readouterr().out

    lines = run().splitlines()
    assert lines[0] == "5 texts" and lines[1].startswith("accuracy      80.0%  (95% interval ")
    assert "food        66.7   100.0   80.0      2" in lines
    assert lines[-1] == "room, food, 1"
    found: Any = json.loads(run("--json"))
    assert found["rows"] == 5 and found["scores"]["accuracy"]["value"] == pytest.approx(0.8)
