"""Tests of the names of labels in a source: they reach the validated corpus in order, and a growing data set."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from epigram.core.errors import ParameterError
from epigram.data.growing_dataset import describe
from epigram.data.sources.source import File, Source
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import validate

NAMES = {"pos": "正面", "neg": "负面"}


def source(**changes: Any) -> Source:
    values: dict[str, Any] = {"task": "single", "label_names": NAMES, "read": {"reader": "csv"}} | changes
    return Source(name="x", about="", language="zh", licence="", files=[File(path="x", local="x")], **values)


def named(about: Source) -> list[str]:
    """Return the names of the labels of the validated corpus, whose labels are sorted if `about` lists none."""
    rows = [(f"{split}{n}", ("pos", "neg")[n % 2], split) for split in ("train", "dev", "test") for n in range(2)]
    frame = pl.DataFrame(rows, schema=["text", "label", "split"], orient="row")
    frame = frame.with_columns(file=pl.lit("x"), line=pl.int_range(len(rows)))
    return validate(frame.lazy(), about, ValidateSettings(min_per_class=1)).corpus.label_names


def test_names_follow_the_order_of_the_labels() -> None:
    assert named(source()) == ["负面", "正面"]
    assert named(source(labels=["pos", "neg"])) == ["正面", "负面"]
    assert named(source(label_names={})) == []


def test_names_of_other_labels_than_those_of_the_texts_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"data/sources/x\.yaml: label_names has 'odd', which is not a label"):
        named(source(label_names=NAMES | {"odd": "奇"}))
    with pytest.raises(ParameterError, match=r"data/sources/x\.yaml: label_names lacks the label 'neg'"):
        named(source(label_names={"pos": "正面"}))


def test_a_growing_data_set_keeps_the_names() -> None:
    assert describe(source(), ["neg", "pos"], "x_live")["label_names"] == NAMES
    assert "label_names" not in describe(source(label_names={}), ["neg", "pos"], "x_live")
