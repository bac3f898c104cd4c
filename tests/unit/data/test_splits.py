"""Tests of created splits: stratified, reproducible, and without texts of train."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epigram.core.errors import DataError, ParameterError
from epigram.data.validation import splits
from epigram.data.validation.row_index import NO_SPLIT, LabelCodes, split_codes, split_names
from epigram.text.dataset.text_matching import LOOSE, label_column, loose_text

ROWS = st.lists(
    st.tuples(st.text(st.sampled_from("abAB .好"), max_size=3), st.sampled_from("xyz")), min_size=20, max_size=60
)
MULTI = st.lists(st.tuples(st.text("abcdef", max_size=3), st.lists(st.sampled_from("xyz"), max_size=3)), min_size=20)


def corpus(rows: list[tuple[str, object]], split: str = "train") -> pl.DataFrame:
    multi = isinstance(rows[0][1], list)
    schema = {"text": pl.String, "labels" if multi else "label": pl.List(pl.String) if multi else pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    columns = {"split": pl.lit(split), "row": pl.int_range(pl.len(), dtype=pl.Int64), LOOSE: loose_text()}
    return frame.with_columns(**columns)


def values(frame: pl.DataFrame) -> LabelCodes:
    """Return the label codes of `frame`, added in two batches."""
    numbers, half = LabelCodes(frame.height), frame.height // 2
    for start, batch in ((0, frame.head(half)), (half, frame.tail(frame.height - half))):
        numbers.add(start, batch[label_column(frame.columns)])
    return numbers


def cut(frame: pl.DataFrame, **settings: Any) -> tuple[pl.DataFrame, list[str]]:
    """Return `frame` with its new splits, and the notes."""
    repeated = frame.filter(pl.col(LOOSE).is_duplicated()).select("row", LOOSE)
    split, notes = splits.create_splits(split_codes(frame["split"]), values(frame), repeated, **settings)
    return frame.with_columns(split_names(split)), notes


def cap(train: pl.DataFrame, rows: int, seed: int) -> pl.DataFrame:
    return train.filter(
        pl.Series(splits.limit_train(split_codes(train["split"]), values(train), rows, seed) != NO_SPLIT)
    )


def numbered(count: int, labels: str = "xy") -> pl.DataFrame:
    return corpus([(f"text {place}", labels[place % len(labels)]) for place in range(count)])


def sizes(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.group_by("split").len().iter_rows())


def test_a_corpus_without_splits_is_cut_80_10_10_in_every_class() -> None:
    frame, notes = cut(numbered(200), dev=0.1, test=0.1, seed=0)
    assert sizes(frame) == {"train": 160, "dev": 20, "test": 20}
    assert set(frame.group_by("split", "label").len().iter_rows()) == {
        (split, label, rows) for split, rows in (("train", 80), ("dev", 10), ("test", 10)) for label in "xy"
    }
    assert notes[1].startswith("The source has no dev split: 20 of 200 training rows were moved to it")


def test_only_the_missing_split_is_cut() -> None:
    given_test = corpus([("held out", "x")], "test").with_columns(row=pl.lit(100, pl.Int64))
    frame, notes = cut(pl.concat([numbered(100), given_test]), dev=0.2, test=0.1, seed=0)
    assert sizes(frame) == {"train": 80, "dev": 20, "test": 1}
    assert len(notes) == 1


def test_nothing_is_cut_from_a_corpus_with_all_splits() -> None:
    frame = numbered(30).with_columns(split=pl.Series(["train", "dev", "test"] * 10))
    same, notes = cut(frame, dev=0.1, test=0.1, seed=0)
    assert same.equals(frame)
    assert notes == []


def test_the_seed_decides() -> None:
    cuts = [cut(numbered(100), dev=0.1, test=0.1, seed=seed)[0] for seed in (0, 0, 1)]
    assert cuts[0].equals(cuts[1])
    assert not cuts[0].equals(cuts[2])


def test_every_class_of_three_texts_is_in_every_split() -> None:
    frame, _ = cut(numbered(9, "xyz"), dev=0.1, test=0.1, seed=3)
    assert sizes(frame) == {"train": 3, "dev": 3, "test": 3}


def test_a_class_of_one_text_stays_in_train() -> None:
    rows = [(f"text {place}", "x") for place in range(30)] + [("again", "y")] * 5
    frame, _ = cut(corpus(rows), dev=0.2, test=0.2, seed=0)
    assert frame.filter(pl.col("label") == "y")["split"].unique().to_list() == ["train"]


def test_too_little_to_cut_is_said() -> None:
    with pytest.raises(DataError, match="cannot create a test split"):
        cut(corpus([("a", "x"), ("b", "y")]), dev=0.1, test=0.1, seed=0)


def test_shares_must_leave_rows_to_train() -> None:
    with pytest.raises(ParameterError, match=r"validate.dev \+ validate.test is 1.1"):
        cut(numbered(50), dev=0.5, test=0.6, seed=0)


def check(frame: pl.DataFrame, done: pl.DataFrame) -> None:
    assert done.drop("split").equals(frame.drop("split"))
    assert done.group_by(LOOSE).agg(pl.col("split").n_unique())["split"].max() == 1
    label = "labels" if "labels" in frame.columns else "label"
    train = done.filter(pl.col("split") == "train")
    assert set(train.explode(label)[label] if label == "labels" else train[label]) >= set(
        frame.explode(label)[label].drop_nulls() if label == "labels" else frame[label]
    )


@given(ROWS, st.integers(0, 3), st.sampled_from([0.1, 0.3, 0.45]))
@settings(max_examples=60, deadline=None)
def test_no_cut_leaks_or_loses_a_row_or_a_label(rows: list[tuple[str, object]], seed: int, share: float) -> None:
    frame = corpus(rows)
    try:
        done, _ = cut(frame, dev=share, test=share, seed=seed)
    except DataError:
        return
    check(frame, done)


@given(MULTI, st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_no_cut_of_many_labels_leaks_or_loses_a_row_or_a_label(rows: list[tuple[str, object]], seed: int) -> None:
    frame = corpus(rows)
    try:
        done, _ = cut(frame, dev=0.2, test=0.2, seed=seed)
    except DataError:
        return
    check(frame, done)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_of_several_labels_is_stratified_by_its_rarest(seed: int) -> None:
    """Each split gets a fifth of the 30 rows labelled `a` and a fifth of the 10 rows labelled `a` and `b`."""
    frame = corpus([(f"text {place}", ["a", "b"] if place < 10 else ["a"]) for place in range(40)])
    done, _ = cut(frame, dev=0.2, test=0.2, seed=seed)
    rare = done.filter(pl.col("labels").list.contains("b"))
    assert sizes(rare) == {"train": 6, "dev": 2, "test": 2}
    assert sizes(done) == {"train": 24, "dev": 8, "test": 8}


def test_a_capped_train_keeps_the_shares_of_its_classes_and_its_order() -> None:
    train = corpus([(f"text {place}", "y" if place % 4 == 0 else "x") for place in range(400)])
    sample = cap(train, 100, 0)
    assert dict(sample.group_by("label").len().iter_rows()) == {"x": 75, "y": 25}
    assert sample["row"].is_sorted()
    assert sample.columns == train.columns
    assert sample.equals(cap(train, 100, 0))
    assert not sample.equals(cap(train, 100, 1))


def test_a_capped_train_keeps_its_rare_labels() -> None:
    train = corpus([("rare", "y"), *((f"text {place}", "x") for place in range(500))])
    assert set(cap(train, 5, 0)["label"]) == {"x", "y"}
    with pytest.raises(ParameterError, match="max_train_rows is 1; expected at least 2, one row for each label"):
        cap(train, 1, 0)
