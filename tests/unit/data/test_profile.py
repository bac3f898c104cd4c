"""Tests of corpus statistics and of the data report."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from epigram.data.validation.corpus_notes import machine_labels
from epigram.data.validation.statistics import corpus_statistics, histogram, token_counts, vocabulary
from epigram.report.data_page import render_page

PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=40)


def part(*texts: str, label: str = "x", start: int = 0) -> pl.DataFrame:
    frame = pl.DataFrame({"text": texts, "label": [label] * len(texts)}, schema={"text": pl.String, "label": pl.String})
    return frame.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64) + start)


CLASSES = {"train": {"x": 2, "y": 1, "z": 0}}


def described(parts: dict[str, pl.DataFrame], batch: int = 2) -> dict[str, Any]:
    """Return the statistics of `parts`, read `batch` rows at a time."""
    batches = {name: part.iter_slices(batch) for name, part in parts.items()}
    return corpus_statistics(batches, CLASSES, dict.fromkeys(parts, 0), "en")


def test_a_small_corpus_in_numbers() -> None:
    parts = {
        "train": pl.concat([part("Good food", "good food "), part("😀 👍🏽", label="y", start=2)]),
        "dev": part("bad food", start=3),
        "test": part("", start=4),
    }
    numbers = described(parts)
    assert numbers["rows"] == {"train": 3, "dev": 1, "test": 1}
    assert numbers["classes"] == CLASSES
    assert numbers["imbalance"] is None
    assert numbers["emoji_only"] == {"train": 1, "dev": 0, "test": 0}
    assert numbers["longest"]["row"] == 1
    assert numbers["vocabulary"]["unknown"] == {"dev": 0.5, "test": 0.0}
    assert numbers["length"]["tokens"]["max"] == 3


def test_labels_by_a_machine_are_counted_in_each_split() -> None:
    marked = part("a", "b", "c").with_columns(labelled_by=pl.Series(["m", None, "m"]))
    parts = {"train": marked, "dev": marked.head(2).with_columns(labelled_by=pl.lit(" ")), "test": part("d")}
    numbers = described(parts)
    assert numbers["machine_labels"] == {"train": 2, "dev": 0, "test": 0}
    (note,) = machine_labels(numbers["machine_labels"], numbers["rows"])
    assert note.startswith("Labels by a machine: train 2 of 3, dev 0 of 2, test 0 of 1; a score against these is")
    assert machine_labels({"train": 0, "test": 0}, numbers["rows"]) == []


def test_the_size_of_a_batch_changes_nothing() -> None:
    texts = ["😀", "a bb", "ccc", "", "ccc dd dd", "e", "ccc dd e!"]
    parts = {name: part(*texts) for name in ("train", "dev", "test")}
    assert described(parts, 1) == described(parts, 2) == described(parts, 7)


def test_chinese_is_counted_by_character() -> None:
    counts = dict(token_counts(pl.Series(["好的, 好"]), "zh").iter_rows())
    assert counts == {"好": 2, "的": 1, ",": 1}
    parts = {"train": part("好的"), "dev": part("好坏坏坏"), "test": part("的")}
    counted = {name: token_counts(part["text"], "zh") for name, part in parts.items()}
    assert vocabulary(counted, "zh") == {"unit": "character", "train": 2, "unknown": {"dev": 0.75, "test": 0.0}}


def test_english_is_counted_by_word_in_lower_case() -> None:
    counts = dict(token_counts(pl.Series(["Don't stop. don't"]), "en").iter_rows())
    assert counts == {"don't": 2, "stop": 1, ".": 1}


def test_a_very_long_text_is_counted_in_its_own_piece() -> None:
    counts = dict(token_counts(pl.Series(["a b", "a " * 6_000_000, "b"]), "en").iter_rows())
    assert counts == {"a": 6_000_001, "b": 2}


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50), st.lists(st.integers(0, 30), max_size=50))
@settings(max_examples=60, deadline=None)
def test_every_text_is_in_one_bin(train: list[int], dev: list[int]) -> None:
    counts = histogram({"train": np.bincount(train), "dev": np.bincount(np.array(dev, dtype=int))})
    edges = counts["edges"]
    assert len(edges) <= 22
    assert [counts[key] for key in ("p5", "p50", "p95", "p99", "max")] == [
        int(np.quantile(train + dev, share)) for share in (0.05, 0.5, 0.95, 0.99, 1)
    ]
    for name, lengths in (("train", train), ("dev", dev)):
        expected = [sum(edge <= length < after for length in lengths) for edge, after in pairwise(edges)]
        assert counts["counts"][name] == [*expected, sum(length >= edges[-1] for length in lengths)]


@given(st.lists(PRINTABLE, min_size=1, max_size=8), PRINTABLE)
@settings(max_examples=30, deadline=None)
def test_the_page_is_well_formed_whatever_the_texts_are(texts: list[str], label: str) -> None:
    parts = {name: part(*texts, label=label) for name in ("train", "dev", "test")}
    place = {"file": label, "line": 1, "value": texts[0]}
    counts = {name: {label: len(texts)} for name in parts}
    report = corpus_statistics(
        {name: [part] for name, part in parts.items()}, counts, dict.fromkeys(parts, 0), "en"
    ) | {
        "name": label,
        "language": "en",
        "task": "single",
        "labels": [label],
        "token_labels": [label],
        "token_classes": {name: {label: 1} for name in parts},
        "notes": texts,
        "dev_in_train": 1,
        "test_in_train": 1,
        "leaks": {"found": [], "left": []},
        "rules": [{"rule": "r", "setting": "s", "action": "report", "rows": 1, "dropped": 0, "examples": [place]}],
        "conflicts": {
            "texts": {},
            "examples": [{"text": texts[0], "split": "train", "labels": [label], "places": ["f:1"]}],
        },
    }
    fragment = render_page(report)
    assert ET.fromstring(fragment).tag == "section"
    assert "<script" not in fragment.lower()
