"""Exports of labelling tools are added as they are: texts, their labels, and labels of words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.add import AddedSource, add_source
from epigram.data.sources.source import Source, read_source
from epigram.data.tables import open_table
from epigram.fitting.inputs import write_raw


def choice(*labels: str, control: str = "sentiment") -> dict[str, Any]:
    value = {"choices": list(labels)}
    return {"id": "r1", "type": "choices", "from_name": control, "to_name": "text", "value": value}


def mark(start: int, end: int, text: str, label: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    return {"id": "r2", "type": "labels", "from_name": "ner", "to_name": "text", "value": value}


def task(text: str, *annotations: Sequence[dict[str, Any]], cancelled: bool = False) -> dict[str, Any]:
    made = [{"id": 1, "completed_by": 1, "was_cancelled": cancelled, "result": list(each)} for each in annotations]
    return {"id": 7, "data": {"text": text, "author": "x"}, "annotations": made, "predictions": []}


SMILE = "\U0001f600"
NER = [
    task("Ann met Bob", [mark(0, 3, "Ann", "PER"), mark(8, 11, "Bob", "PER")]),
    task(f"{SMILE} in Rome", [mark(6, 10, "Rome", "LOC")]),  # UTF-16 units
    task(f"{SMILE} in Rome again", [mark(5, 9, "Rome", "LOC")]),  # characters
    task("no names", []),
]
WORDS = [("Ann", "PER"), ("met", "O"), ("Bob", "PER")]
IN_ROME = [(SMILE, "O"), ("in", "O"), ("Rome", "LOC")]
DOCCANO = [
    {"id": 1, "text": "Ann met Bob", "label": [[0, 3, "PER"], [8, 11, "PER"]], "Comments": []},
    {"id": 2, "text": f"{SMILE} in Rome", "label": [[5, 9, "LOC"]], "Comments": []},
]
ENTITIES = [
    {
        "id": row["id"],
        "text": row["text"],
        "entities": [{"id": 1, "start_offset": a, "end_offset": b, "label": name} for a, b, name in row["label"]],  # type: ignore[attr-defined]
        "relations": [],
    }
    for row in DOCCANO
]

TEXTS: dict[str, tuple[Any, dict[str, Any], str, list[tuple[str, Any]]]] = {
    "one label": (
        [task("fine", [choice("pos")]), task("dull", [choice("neg")], [choice("pos")])],
        {},
        "single",
        [("fine", "pos"), ("dull", "neg"), ("dull", "pos")],
    ),
    "several labels": (
        [task("a", [choice("x", "y")]), task("b", []), task("c", [choice("y")])],
        {},
        "multi",
        [("a", ["x", "y"]), ("b", []), ("c", ["y"])],
    ),
    "two controls": (
        [
            task("a", [choice("pos"), choice("long", control="size")]),
            task("b", [choice("neg"), choice("short", control="size")]),
        ],
        {"label": "size"},
        "single",
        [("a", "long"), ("b", "short")],
    ),
    "the small export": (
        [
            {"id": 1, "text": "a", "sentiment": {"choices": ["x", "y"]}},
            {"id": 2, "text": "b", "sentiment": {"choices": ["x"]}},
        ],
        {"label": "sentiment", "label_separator": "[]"},
        "multi",
        [("a", ["x", "y"]), ("b", ["x"])],
    ),
}


def add(root: Path, content: Any, name: str = "tasks.json", **columns: Any) -> tuple[AddedSource, Source]:
    rows = "".join(f"{json.dumps(row)}\n" for row in content) if name.endswith(".jsonl") else json.dumps(content)
    (root / name).write_text(rows)
    found = add_source(root / name, root=root, **{"name": "mine", "text": "text", "label": "label", **columns})
    return found, read_source(found.path)


@pytest.mark.parametrize("kind", TEXTS)
def test_labels_of_texts(kind: str, tmp_path: Path) -> None:
    content, columns, wanted, rows = TEXTS[kind]
    source = add(tmp_path, content, **columns)[1]
    frame = read_corpus(source, tmp_path / "data/local")
    assert source.task == wanted
    assert frame.select("text", "labels" if wanted == "multi" else "label").rows() == rows


def test_tasks_without_an_annotation_are_left_out_and_counted(tmp_path: Path) -> None:
    content = [task("a", [choice("x")]), task("b", [choice("y")]), task("c"), task("d", [choice("x")], cancelled=True)]
    found, source = add(tmp_path, content)
    assert read_corpus(source, tmp_path / "data/local")["text"].to_list() == ["a", "b"]
    assert found.notes[0] == "rows that are not accepted in the column 'answer' are left out: 2"
    table = open_table(tmp_path / "tasks.json")  # as a pool of texts, all of them
    assert table.rows == 4


def test_two_controls_need_a_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no column 'label'.*\n.*'sentiment', 'size'"):
        add(tmp_path, TEXTS["two controls"][0])


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (NER, "tasks.json", [WORDS, IN_ROME, [*IN_ROME, ("again", "O")], [("no", "O"), ("names", "O")]]),
        (DOCCANO, "admin.jsonl", [WORDS, IN_ROME]),
        (DOCCANO, "admin.json", [WORDS, IN_ROME]),
        (ENTITIES, "all.jsonl", [WORDS, IN_ROME]),
    ],
)
def test_marked_parts_are_labels_of_words(
    content: Any, name: str, words: list[list[tuple[str, str]]], tmp_path: Path
) -> None:
    source = add(tmp_path, content, name)[1]
    assert (source.task, source.labels, source.read["label"]) == ("tokens", [], None)
    frame = read_corpus(source, tmp_path / "data/local")
    assert "label" not in frame.columns
    found = [list(zip(*row, strict=True)) for row in frame.select("tokens", "token_labels").rows()]
    assert found == words
    with pytest.raises(ParameterError, match="only words have labels; use epigram add and epigram run"):
        write_raw(tmp_path / name, None, text="text", label="label", language=None, folder=tmp_path / "raw")


def test_texts_with_labels_and_marked_parts_have_both(tmp_path: Path) -> None:
    content = [
        task("Ann met Bob", [choice("pos"), mark(0, 3, "Ann", "PER")]),
        task("Rome again", [choice("neg"), mark(0, 4, "Rome", "LOC")]),
    ]
    source = add(tmp_path, content)[1]
    frame = read_corpus(source, tmp_path / "data/local")
    assert frame["label"].to_list() == ["pos", "neg"]
    assert frame["token_labels"].to_list() == [["PER", "O", "O"], ["LOC", "O"]]


def test_labels_of_texts_from_doccano(tmp_path: Path) -> None:
    content = [{"id": 1, "text": "a", "label": []}, {"id": 2, "text": "b", "label": ["x", "y"]}]
    source = add(tmp_path, content, "all.jsonl")[1]
    assert (source.task, source.labels) == ("multi", ["x", "y"])
