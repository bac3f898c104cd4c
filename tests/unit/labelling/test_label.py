"""Tests of labels by similarity: against cosines by hand, from Python and for tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

import epigram
from epigram.cli import app as cli
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.labelling.label_list import read_labels
from epigram.labelling.similarity import SHARPNESS, label_by_similarity
from epigram.text.tokens.tokenizers import SPECIALS
from tests.support.static_model import write_model

VECTORS = {"food": (1.0, 0.0), "soup": (3.0, 0.0), "room": (0.0, 1.0), "bed": (0.0, 2.0), "fish": (3.0, 4.0)}
CONFIDENCE = {cosine: 1 / (1 + np.exp(-SHARPNESS * cosine)) for cosine in (1.0, 0.2)}  # differences of two cosines


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of an encoder that knows the words of VECTORS, as the only installed one."""
    folder = tmp_path / "encoder"
    write_model(folder, list(VECTORS))
    table = np.zeros((len(SPECIALS) + len(VECTORS), 2), np.float32)
    table[len(SPECIALS) :] = list(VECTORS.values())
    save_file({"embeddings": table}, folder / "model.safetensors")
    monkeypatch.setattr("epigram.labelling.similarity.installed_encoder", lambda language: str(folder))
    monkeypatch.chdir(tmp_path)
    return str(folder)


@pytest.fixture
def run(encoder: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs `epigram label` with the labels food and room."""
    Path("labels.txt").write_text("food\nroom: bed\n", "utf-8")

    def command(*arguments: object) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", "label", *map(str, arguments), "--labels", "labels.txt"])
        cli.app()

    return command


def test_the_label_is_the_most_similar_one_and_its_confidence_a_softmax_of_cosines(encoder: str) -> None:
    found = label_by_similarity(["soup", "bed bed room", "fish"], {"food": "", "room": ""}, encoder, "en")
    assert [name for name, _ in found.values()] == ["food", "room", "room"]  # of fish, the cosines are 0.6 and 0.8
    np.testing.assert_allclose(
        [confidence for _, confidence in found.values()], [CONFIDENCE[1.0], CONFIDENCE[1.0], CONFIDENCE[0.2]], rtol=1e-5
    )


def test_a_description_counts_beside_the_name(encoder: str) -> None:
    named, described = ({"food": about, "a": "bed"} for about in ("", "bed bed bed"))
    assert label_by_similarity(["soup"], named, encoder, "en")["soup"] == ("food", pytest.approx(CONFIDENCE[1.0]))
    nearer = 1 / (1 + np.exp(-SHARPNESS / np.sqrt(37)))  # the mean of food and three times bed is (1, 6) / 4
    assert label_by_similarity(["soup"], described, encoder, "en")["soup"] == ("food", pytest.approx(nearer))


def test_labels_from_python_are_in_the_order_of_the_texts(encoder: str) -> None:
    found = epigram.label(["bed", "soup", " ", "bed"], ["food", "room"])
    assert found.labels == ["room", "food", None, "room"]
    assert found.confidences[2] == 0.0 and found.confidences[0] == found.confidences[3] > 0.9
    labels, _ = epigram.label(["bed"], {"x": "food", "y": "room"})
    assert labels == ["y"]


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("soup", ["food", "room"], "expected a list of texts"),
        (["soup"], "food", "labels is the string 'food'"),
        (["soup"], ["food"], "found 1 labels; expected at least two"),
        (["soup"], ["food", "room", "food"], "the label 'food' is there twice"),
    ],
)
def test_other_arguments_are_rejected(encoder: str, texts: list[str], labels: list[str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        epigram.label(texts, labels)


def test_without_an_encoder_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.labelling.similarity.installed_encoder", lambda language: None)
    for text, name in (("soup", "english"), ("好吃", "chinese")):
        with pytest.raises(InputMissingError, match=f"run epigram encoders install {name}"):
            epigram.label([text], ["food", "room"])


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("food\n\nroom\n", {"food": "", "room": ""}),
        ("food: soup, fish\nroom\tbed: large\n", {"food": "soup, fish", "room": "bed: large"}),
        ("10:30\n菜：汤\n", {"10:30": "", "菜": "汤"}),
    ],
)
def test_a_file_of_labels_has_names_with_descriptions(tmp_path: Path, content: str, labels: dict[str, str]) -> None:
    (tmp_path / "labels.txt").write_text(content, "utf-8")
    assert read_labels(tmp_path / "labels.txt") == labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("food\n", "labels.txt: found 1 labels"),
        ("food\nfood: soup\n", "'food' is there twice"),
        ("food\n: bed\n", "labels.txt:2 has a description and no label"),
    ],
)
def test_a_wrong_file_of_labels_is_rejected(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "labels.txt").write_text(content, "utf-8")
    with pytest.raises(DataError, match=message):
        read_labels(tmp_path / "labels.txt")


def test_a_file_of_lines_becomes_a_table_that_says_who_has_labelled_it(
    run: Callable[..., None], encoder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("texts.txt").write_text("soup\n\nbed\n", "utf-8")
    run("texts.txt", "--out", "labelled.csv")
    found = pl.read_csv("labelled.csv")
    assert found.columns == ["text", "label", "confidence", "labelled_by"]
    assert found["text"].to_list() == ["soup", "", "bed"] and found["label"].to_list() == ["food", None, "room"]
    assert found["confidence"][1] == 0.0 and found["labelled_by"].to_list() == [encoder] * 3
    assert capsys.readouterr().out == "labelled.csv: 3 texts, 1 of them without a label\n"


def test_a_table_keeps_its_columns(run: Callable[..., None]) -> None:
    rows = [{"id": 1, "title": "soup", "body": "soup"}, {"id": 2, "title": "bed", "body": None}]
    Path("in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    run("in.jsonl", "--text", "title,body", "--out", "out.jsonl")
    found = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    assert [(row["title"], row["body"], row["label"]) for row in found] == [
        ("soup", "soup", "food"),
        ("bed", None, "room"),
    ]
    assert list(found[0]) == ["id", "title", "body", "label", "confidence", "labelled_by"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", "text,label\nsoup,food\n", "already has a column 'label'"),
        ("in.csv", "review\nsoup\n", "has no column 'text'"),
        ("in.txt", "", "has no text"),
        ("absent.txt", None, "absent.txt is missing"),
    ],
)
def test_a_file_that_does_not_fit_is_rejected(
    run: Callable[..., None], name: str, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path(name).write_text(content, "utf-8")
    with pytest.raises(SystemExit):
        run(name, "--out", "out.csv")
    assert message in capsys.readouterr().err and not Path("out.csv").exists()
