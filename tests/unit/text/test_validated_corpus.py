"""The record of a validated corpus is read as it was written; rows and labels are those of the files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError, InputMissingError
from epigram.text.dataset.validated_corpus import ValidatedCorpus

WRITTEN = ValidatedCorpus(
    name="toy", language="en", task="multi", labels=["a", "b", "c"], token_labels=["O", "X"], tokens_only=False,
    rows={"train": 7}, notes=["One row was dropped."], dev_in_train=2, test_in_train=3,
)  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> ValidatedCorpus:
    WRITTEN.write(tmp_path)
    labels = [["c", "a"], [], ["b"], None, ["a"], ["a"], ["b"]]
    frame = pl.DataFrame({"row": range(7), "text": list("tuvwxyz"), "labels": labels})
    frame.write_parquet(tmp_path / "train.parquet")
    return ValidatedCorpus.read(tmp_path)


def test_a_corpus_is_read_as_it_was_written(corpus: ValidatedCorpus) -> None:
    assert corpus.content == WRITTEN.content
    assert json.loads((corpus.folder / "corpus.json").read_text()) == WRITTEN.content
    assert list(WRITTEN.content)[:3] == ["name", "language", "task"]


@pytest.mark.parametrize("key", ["name", "labels", "rows", "test_in_train"])
def test_a_missing_or_wrong_entry_is_named(corpus: ValidatedCorpus, key: str) -> None:
    path, content = corpus.folder / "corpus.json", WRITTEN.content
    for wrong in ({name: value for name, value in content.items() if name != key}, content | {key: 1.5}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=rf"corpus\.json has no valid {key}: delete .* and run dvc repro"):
            ValidatedCorpus.read(corpus.folder)


def test_a_frame_has_all_rows_or_random_ones_in_order(corpus: ValidatedCorpus) -> None:
    assert corpus.frame("train", "text")["text"].to_list() == list("tuvwxyz")
    assert corpus.frame("train", "row", most=7)["row"].to_list() == [0, 1, 2, 3, 4, 5, 6]
    for most in (2, 6):
        rows = corpus.frame("train", "row", most=most)["row"].to_list()
        assert len(rows) == most and rows == sorted(set(rows))
        assert corpus.frame("train", "row", most=most)["row"].to_list() == rows
    with pytest.raises(InputMissingError, match=r"dev\.parquet is missing: run dvc repro validate"):
        corpus.frame("dev", "text")
    (corpus.folder / "test.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"test\.parquet cannot be read"):
        corpus.frame("test", "text")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["2024-1-31", "2024-11-02 10:00", None], ["2024-01", "2024-11", ""]),
        (["2024年1月31日", "2024/02/01", "2024.03.01"], ["2024-01", "2024-02", "2024-03"]),
        (["soon", "2024-1-31", "2024-02-01"], ["soon", "2024-1-31", "2024-02-01"]),
        ([3, None, 1], ["3", "", "1"]),
        (['["book"]', "x", '["a", "b"]'], ["book", "x", "a, b"]),
    ],
)
def test_the_values_of_a_column_are_texts_and_dates_are_months(
    corpus: ValidatedCorpus, values: list[object], shown: list[str]
) -> None:
    pl.DataFrame({"row": [5, 6, 7], "by": values}).write_parquet(corpus.folder / "test.parquet")
    found = replace(corpus, slices=["by"]).slice_values("test", np.array([7, 5]))
    assert found == {"by": [shown[2], shown[0]]} and corpus.slice_values("test", np.array([7])) == {}


def test_a_sample_of_alternating_labels_has_both_in_their_shares(corpus: ValidatedCorpus) -> None:
    """Every fourth row would have one label only. The rows are read in two batches."""
    frame = pl.DataFrame({"row": range(60_002), "label": ["pos", "neg"] * 30_001})
    frame.write_parquet(corpus.folder / "dev.parquet")
    found = corpus.frame("dev", "row", "label", most=20_000)
    assert (found["label"] == frame["label"][found["row"]]).all()
    assert found["row"].is_sorted() and found["row"].n_unique() == 20_000
    assert (found["label"] == "pos").mean() == pytest.approx(0.5, abs=0.02)
    assert (found["row"] >= 50_000).mean() == pytest.approx(1 / 6, abs=0.02)


def test_labels_are_numbers_or_indicators_in_the_order_of_the_corpus(corpus: ValidatedCorpus) -> None:
    rows = corpus.frame("train", "labels")
    indicators = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert corpus.label_column == "labels"
    assert corpus.label_array(rows).tolist() == indicators
    with pytest.raises(DataError, match=r"'d' is not in corpus\.json"):
        corpus.label_array(pl.DataFrame({"labels": [["d"]]}))
