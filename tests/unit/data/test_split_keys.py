"""Tests of splits by a column: no group is in two splits or folds, and the newest rows are the test split."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from epigram.core.errors import DataError, ParameterError
from epigram.data.readers import KINDS
from epigram.data.sources.source import File, Source
from epigram.data.times import parse_times
from epigram.data.validation import split_keys
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import Validated, validate


def source(**read: str) -> Source:
    return Source(
        name="x", about="", language="en", licence="", task="single", read=read, files=[File(path="x", local="x")]
    )


def validated(rows: dict[str, list[Any]], *, key: str, **settings: Any) -> Validated:
    """Return the validated rows, whose column `key` is group or time."""
    count = len(next(iter(rows.values())))
    places = {"split": [None] * count, "file": ["x"] * count, "line": list(range(2, count + 2))}
    frame = pl.DataFrame({"text": [f"text number {row}" for row in range(count)], **places, **rows})
    with_split = frame.with_columns(pl.col("split").cast(pl.String))
    return validate(
        with_split.lazy(), source(**{key: "author" if key == "group" else "date"}), ValidateSettings(**settings)
    )


def part(result: Validated, name: str, column: str) -> list[Any]:
    return result.parts[name].collect()[column].to_list()


def authors(count: int = 40, each: int = 100) -> dict[str, list[Any]]:
    """Return texts of authors, each of whom writes a word of their own, mostly about one label."""
    chance = random.Random(0)
    rows: dict[str, list[Any]] = {"text": [], "label": [], "group": []}
    for row in range(count * each):
        author = row % count
        rows["text"].append(f"signed author{author} {row}")
        rows["label"].append("ab"[author % 2] if chance.random() < 0.9 else "ba"[author % 2])
        rows["group"].append(f"author{author}")
    return rows


def accuracy(result: Validated) -> float:
    """Return the accuracy of bag-of-words on test."""
    words, model = CountVectorizer(), LogisticRegression()
    model.fit(words.fit_transform(part(result, "train", "text")), part(result, "train", "label"))
    return float(model.score(words.transform(part(result, "test", "text")), part(result, "test", "label")))


# Groups


def test_a_plain_split_leaks_authors_and_scores_higher() -> None:
    rows = authors()
    plain = validated({name: rows[name] for name in ("text", "label")}, key="group")
    grouped = validated(rows, key="group")
    assert accuracy(plain) > 0.85
    assert accuracy(grouped) < 0.65
    found = {name: set(part(grouped, name, "group")) for name in grouped.parts}
    assert {name: len(values) for name, values in found.items()} == {"train": 32, "dev": 4, "test": 4}
    assert not (found["train"] & found["dev"] or found["train"] & found["test"] or found["dev"] & found["test"])
    assert [note.split(" were moved to it, ")[1] for note in grouped.corpus.notes if "moved" in note] == [
        "whole groups of the same 'author' (seed 0); equal texts stay in one split."
    ] * 2


@pytest.mark.parametrize("stratified", [10, 5_000])
def test_no_author_is_in_two_folds(stratified: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_keys, "STRATIFIED_GROUPS", stratified)
    result = validated(authors(count=20, each=10), key="group")
    folds = result.parts["train"].collect().group_by("group").agg(pl.col("fold").n_unique())
    assert result.corpus.folds == 5 and folds["fold"].to_list() == [1] * 20
    assert "equal texts are in one fold, and so are rows with the same 'author'." in result.corpus.notes[-2]


def test_equal_texts_join_their_authors_and_rows_without_an_author_are_apart() -> None:
    """The first text is by authors 0 to 3, whose rows are in one fold; rows without an author are in several."""
    rows = authors(count=20, each=10)
    rows["text"][:4] = ["the same text"] * 4
    rows["group"][5::20] = [None] * 10
    train = validated(rows, key="group", on_conflict="report").parts["train"].collect()
    assert train.filter(pl.col("group").is_in([f"author{writer}" for writer in range(4)]))["fold"].n_unique() == 1
    assert train.filter(pl.col("group").is_null())["fold"].n_unique() > 1


def test_an_author_who_is_too_large_stays_in_train() -> None:
    rows = authors(count=10, each=400)
    rows["group"] = ["author0" if row % 10 < 6 else group for row, group in enumerate(rows["group"])]
    result = validated(rows, key="group")
    assert "author0" in part(result, "train", "group")
    assert {name: len(set(part(result, name, "group"))) for name in ("dev", "test")} == {"dev": 1, "test": 1}


@pytest.mark.parametrize(
    ("count", "each", "said"),
    [
        (4, 20, "train has 4 different values of 'author'; expected at least 5, one for each fold"),
        (1, 4000, "cannot create a test split by 'author': all rows of train have one value"),
        (2, 2000, "cannot create a test split by 'author': the label 'a' would have no rows in train"),
    ],
)
def test_too_few_authors_are_an_error(count: int, each: int, said: str) -> None:
    rows = authors(count, each)
    if count == 2:
        rows["label"] = ["ab"[row % 2] for row in range(4000)]
    with pytest.raises(DataError, match=said):
        validated(rows, key="group")


def test_an_author_in_two_splits_of_the_source_is_an_error() -> None:
    rows = authors(count=10, each=10) | {"split": ["test" if row < 15 else "train" for row in range(100)]}
    said = r"^x:2: the author 'author0' is in several splits, as 10 are; use either the column of the splits or group"
    with pytest.raises(DataError, match=said):
        validated(rows, key="group")


# Times


def days(count: int, *, step: int = 1) -> list[Any]:
    """Return dates as text, of which each is that of `step` rows."""
    first = np.datetime64("2020-01-01")
    return [str(first + row // step) for row in range(count)]


def test_the_newest_rows_are_the_test_split_whatever_their_order() -> None:
    dates = days(4000)
    random.Random(0).shuffle(dates)
    result = validated({"label": ["a", "b"] * 2000, "time": dates}, key="time")
    parts = {name: part(result, name, "time") for name in result.parts}
    assert {name: len(values) for name, values in parts.items()} == {"train": 3200, "dev": 400, "test": 400}
    assert max(parts["train"]) < min(parts["dev"]) and max(parts["dev"]) < min(parts["test"])
    assert "moved to it, the newest by 'date'; equal" in result.corpus.notes[0]


def test_few_rows_have_a_test_split_by_time_and_plain_folds() -> None:
    result = validated({"label": ["a", "b"] * 50, "time": days(100)}, key="time")
    assert sorted(part(result, "test", "time")) == days(100)[90:]
    assert result.corpus.folds == 5 and result.parts["dev"].height == 0


@pytest.mark.parametrize(("step", "rows"), [(7, 14), (15, 10), (60, 40)])
def test_rows_of_one_time_stay_together(step: int, rows: int) -> None:
    """Of 100 rows, 10 are wanted: the last days have 2 and 7 rows, 10, or 40."""
    result = validated({"label": ["a", "b"] * 50, "time": days(100, step=step)}, key="time")
    assert len(part(result, "test", "time")) == {7: 9, 15: 10, 60: 40}[step]
    assert not set(part(result, "test", "time")) & set(part(result, "train", "time"))


def test_rows_without_a_time_stay_in_train() -> None:
    dates = [None if row % 2 else date for row, date in enumerate(days(100))]
    result = validated({"label": ["a", "b", "b", "a"] * 25, "time": dates}, key="time")
    assert None not in part(result, "test", "time") and len(part(result, "test", "time")) == 10
    assert "(50 rows without a value stay in train)" in result.corpus.notes[0]


def test_an_old_copy_of_a_new_text_is_not_in_train() -> None:
    texts = ["said again" if row in {3, 98} else f"text number {row}" for row in range(100)]
    rows = {"text": texts, "label": ["a", "b", "b", "a"] * 25, "time": days(100)}
    result = validated(rows, key="time", on_conflict="report")
    assert "said again" not in part(result, "train", "text")
    assert part(result, "test", "text").count("said again") == 2


@pytest.mark.parametrize(
    ("labels", "dates", "said"),
    [
        (
            ["a", "b"] * 50,
            ["2024-01-01"] * 100,
            "cannot create a test split by 'date': all rows of train have one time",
        ),
        (["a", "b"] * 47 + ["new"] * 6, days(100), "the label 'new' would have no rows in train"),
        (["a", "b"] * 50, [*days(99), "soon"], r"^x:101: the date is 'soon'; expected dates such as 2024-01-31"),
        (["a", "b"] * 50, ["03/04/2024", "05/06/2024"] * 50, "^x:2: the date is '03/04/2024'; expected dates such as"),
    ],
)
def test_times_that_cannot_split_are_an_error(labels: list[str], dates: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        validated({"label": labels, "time": dates}, key="time")


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["9", "10", None, "1e3"], [0, 1, None, 2]),
        (["2024-01-31", "2024-1-5", "2023-12-31T23:00:00Z", "2024-01-31 10:00"], [2, 1, 0, 3]),
        (["2024-01-31T10:00:00+02:00", "2024-01-31T09:00:00Z", "2024-01-31 08:30:00.5"], [0, 2, 1]),
        (["31.01.2024", "2024年1月5日", "2024/1/6"], [2, 0, 1]),
        (["13/04/2024", "02/05/2023"], [1, 0]),
        (["04/13/2024 10:00", "02/05/2025"], [0, 1]),
        (["02/05/2023", "03/04/2024"], [None, None]),
        (["2024-01-31", "5"], [0, None]),
        ([None, None], [None, None]),
    ],
)
def test_times_are_ordered(values: list[str | None], order: list[int | None]) -> None:
    found = parse_times(pl.Series(values, dtype=pl.String)).to_list()
    known = sorted(each for each in found if each is not None)
    assert [None if each is None else known.index(each) for each in found] == order


def test_only_one_of_group_and_time_is_possible() -> None:
    kind: Any = KINDS["csv"]
    with pytest.raises(ParameterError, match="group is 'author' and time is 'date': use one of the two"):
        kind(group="author", time="date")
