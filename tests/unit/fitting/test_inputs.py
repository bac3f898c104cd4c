"""Texts and labels from Python, which become the raw folder of a data set."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import EpigramError, InputMissingError, ParameterError
from epigram.core.files import read_json
from epigram.data.corpus import read_corpus
from epigram.data.sources.source import read_source
from epigram.fitting.inputs import write_raw

TEXTS = ["a fine soup", "cold soup", "very fine", "so cold"]


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """Return texts and labels of a raw folder, read like a stage reads them."""
    source = read_source(folder / "source.json")
    frame = read_corpus(source, folder)
    return frame.select("text", "labels" if source.task == "multi" else "label").rows()


def written(folder: Path, data: Any, labels: Any = None, **columns: Any) -> list[tuple[Any, ...]]:
    """Write `data` to the folder and return the rows that are read from it."""
    write_raw(data, labels, **{"text": "text", "label": "label", "language": None, **columns}, folder=folder / "raw")
    return rows(folder / "raw")


@pytest.mark.parametrize(
    ("labels", "read"),
    [
        (["good", "bad", "good", "bad"], ["good", "bad", "good", "bad"]),
        ([1, 0, 1, 0], ["1", "0", "1", "0"]),
        (np.array([True, False, True, False]), ["True", "False", "True", "False"]),
        ([["a"], ["a", "b"], [], ["b"]], [["a"], ["a", "b"], [], ["b"]]),
        ([{"b", "a"}, {"a"}, {"b"}, {"a"}], [["a", "b"], ["a"], ["b"], ["a"]]),
        (pl.Series(["good", "bad", "good", "bad"]), ["good", "bad", "good", "bad"]),
    ],
)
def test_labels_of_any_kind_are_read_as_their_text(tmp_path: Path, labels: Any, read: list[Any]) -> None:
    assert written(tmp_path, TEXTS, labels) == list(zip(TEXTS, read, strict=True))


def test_frames_and_files_give_the_same_rows(tmp_path: Path) -> None:
    import pyarrow

    columns = {"review": TEXTS, "stars": [5, 1, 5, 1], "id": [1, 2, 3, 4]}
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "reviews.csv")
    wanted = list(zip(TEXTS, ["5", "1", "5", "1"], strict=True))
    kinds = [frame, pyarrow.table(columns), tmp_path / "reviews.csv", str(tmp_path / "reviews.csv")]
    for number, data in enumerate(kinds):
        assert written(tmp_path / str(number), data, text="review", label="stars") == wanted


def test_labels_have_the_order_that_is_given(tmp_path: Path) -> None:
    written(tmp_path, TEXTS, ["fair", "good", "bad", "fair"], ordered=("good", "fair", "bad"))
    assert read_json(tmp_path / "raw" / "source.json")["labels"] == ["good", "fair", "bad"]
    with pytest.raises(ParameterError, match="--ordered lists 1, 2; the labels of the texts are 1, 2, 3"):
        written(tmp_path / "other", TEXTS, [1, 2, 3, 3], ordered=[1, 2])


def test_a_column_of_splits_is_used(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": TEXTS, "label": ["a", "b", "a", "b"], "split": ["train", "train", "test", "test"]})
    written(tmp_path, frame)
    assert read_json(tmp_path / "raw" / "source.json")["splits"] == {"train": ["train"], "test": ["test"]}


def test_labels_by_a_machine_are_counted_and_its_rows_without_a_label_are_left_out(tmp_path: Path) -> None:
    """A person's row without a label stays: the validation reports it."""
    columns = {
        "label": ["a", None, "b", None],
        "labelled_by": ["m", "m", None, " "],
        "confidence": [0.9, 0.0, None, 0.0],
    }
    frame = pl.DataFrame({"text": TEXTS, **columns})
    frame.write_ndjson(tmp_path / "labelled.jsonl")
    for number, data in enumerate((frame, tmp_path / "labelled.jsonl")):
        folder = tmp_path / str(number)
        notes = write_raw(data, None, text="text", label="label", language=None, folder=folder)
        assert rows(folder) == [(TEXTS[0], "a"), (TEXTS[2], "b"), (TEXTS[3], None)]
        note, source = notes[0], read_source(folder / "source.json")
        assert note.startswith("labels by a machine (column 'labelled_by'): 1 of 3;") and note.endswith("left out: 1")
        assert read_corpus(source, folder)["labelled_by"].to_list() == ["m", None, " "]


def test_a_column_without_any_machine_is_not_kept(tmp_path: Path) -> None:
    written(tmp_path, pl.DataFrame({"text": TEXTS, "label": ["a", "b", "a", "b"], "labelled_by": [None, "", " ", ""]}))
    assert "keep" not in read_json(tmp_path / "raw" / "source.json")


def test_groups_and_times_are_columns_or_lists(tmp_path: Path) -> None:
    labels, writers, days = ["a", "b"] * 2, [7, None, 7, 8], [date(2024, 1, day) for day in (2, 1, 3, 4)]
    frame = pl.DataFrame({"text": TEXTS, "label": labels, "who": writers, "day": days})
    for number, (data, given, keys) in enumerate(
        [
            (frame, None, {"group": "who"}),
            (TEXTS, labels, {"group": writers}),
            (frame, None, {"time": "day"}),
            (iter(TEXTS), labels, {"time": np.array(days, "datetime64[D]")}),
        ]
    ):
        columns: dict[str, Any] = {"text": "text", "label": "label", "language": None, **keys}
        write_raw(data, given, **columns, folder=tmp_path / str(number))
        found = read_corpus(read_source(tmp_path / str(number) / "source.json"), tmp_path / str(number))
        assert found[next(iter(keys))].to_list() == [["7", None, "7", "8"], [str(day) for day in days]]["time" in keys]


@pytest.mark.parametrize(
    ("labels", "group", "said"),
    [
        (["a", "b", "a", "b"], ["x"], "there are 4 texts and 1 values of group"),
        (["a", "b", "a", "b"], "who", "group is str; expected a list"),
        (None, ["x", "x", "y", "y"], "group is list; expected the name of a column"),
        (None, "who", "the frame has no column 'who'"),
    ],
)
def test_groups_that_do_not_fit_are_refused(tmp_path: Path, labels: Any, group: Any, said: str) -> None:
    data: Any = TEXTS if labels else pl.DataFrame({"text": TEXTS, "label": ["a", "b"] * 2})
    with pytest.raises(EpigramError, match=said):
        written(tmp_path, data, labels, group=group)


@pytest.mark.parametrize(
    ("data", "labels", "said"),
    [
        (TEXTS, ["a"], "there are 4 texts and 1 labels"),
        ("a text", ["a"], "'a text' is a file, and labels are given"),
        (["a", None], ["a", "b"], "texts has None; expected strings"),
        (TEXTS, ["a", ["b"], "a", "b"], "some labels are lists and some are not"),
        (TEXTS, ["a", "b", None, "a"], "the text at 2 has no label"),
        (TEXTS, [1.0, float("nan"), 2.0, 1.0], "the text at 1 has no label"),
        (TEXTS, "abab", "labels is str; expected a list"),
        (TEXTS, None, "not list without labels"),
        (pl.DataFrame({"text": TEXTS}), None, "the frame has no column 'label'; its columns are text"),
        (TEXTS, ["a", "a", "a", "a"], r"^the table has 4 rows with the labels \['a'\] in 'label'; expected"),
        ([f"t{n}" for n in range(21)], list(range(21)), "^--label is 'label', .* 21 different values in 21 rows"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, data: Any, labels: Any, said: str) -> None:
    with pytest.raises(EpigramError, match=said):
        written(tmp_path, data, labels)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Hotel Reviews (2).csv", "hotel_reviews_2"),
        ("shop_live.csv", "shop"),
        ("评论.csv", "texts"),
        ("local.csv", "texts"),
        (f"{'a' * 120}.csv", "texts"),
    ],
)
def test_the_data_set_has_the_name_of_the_file(tmp_path: Path, file: str, name: str) -> None:
    pl.DataFrame({"text": TEXTS, "label": ["a", "b"] * 2}).write_csv(tmp_path / file)
    written(tmp_path, tmp_path / file)
    assert read_json(tmp_path / "raw" / "source.json")["name"] == name


@pytest.mark.parametrize("labels", [["a"] * 21, list(range(21))])
def test_texts_that_train_nothing_may_have_any_number_of_labels(tmp_path: Path, labels: Any) -> None:
    read = written(tmp_path, [f"t{n}" for n in range(21)], labels, training=False)
    assert read == [(f"t{n}", str(label)) for n, label in enumerate(labels)]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"nowhere\.csv does not exist"):
        written(tmp_path, tmp_path / "nowhere.csv")
