"""Tests of leakage: texts that occur in two splits are counted as exact and as normalised matches."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from epigram.data.validation.cross_row_rules import count_leaks, count_repeats, find_leaks, in_train
from epigram.text.dataset.text_matching import LOOSE, loose_text

TEXTS = st.lists(st.text(st.sampled_from("aAé, .。！好\u3000\n"), max_size=3), max_size=12)


def part(*texts: str, label: str = "x", split: str = "train") -> pl.DataFrame:
    columns = {"text": list(texts), "label": [label] * len(texts), "split": [split] * len(texts)}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    places = {"row": pl.int_range(pl.len(), dtype=pl.Int64), "file": pl.lit("f"), "line": pl.int_range(pl.len())}
    return frame.with_columns(**places, **{LOOSE: loose_text()})


def counted(**parts: pl.DataFrame) -> list[dict[str, object]]:
    return count_leaks(parts, {name: part.height for name, part in parts.items()})


def test_leaks_are_counted_a_pair() -> None:
    train = pl.concat([part("Good!", "bad"), part("odd", label="y")])
    found = counted(train=train, dev=part("good", " bad\n", "new"), test=part("odd", "ＢＡＤ。", "new"))
    assert found == [
        {"rows_of": "test", "also_in": "train", "rows": 3, "exact": 1, "same_label": 0, "normalised": 2},
        {"rows_of": "dev", "also_in": "train", "rows": 3, "exact": 1, "same_label": 1, "normalised": 2},
        {"rows_of": "test", "also_in": "dev", "rows": 3, "exact": 1, "same_label": 1, "normalised": 2},
    ]


def test_an_absent_split_has_no_leaks() -> None:
    assert counted(train=part("a"), dev=part(), test=part()) == []


def test_rows_whose_text_is_their_own_need_only_be_counted() -> None:
    shared = {"train": part("a"), "dev": part(), "test": part("a")}
    [pair] = count_leaks(shared, {"train": 3, "dev": 0, "test": 2})
    assert (pair["rows"], pair["exact"]) == (2, 1)


def test_repeats_do_not_depend_on_white_space_around() -> None:
    assert [count_repeats(part("a", " a", "b")), count_repeats(part("a")), count_repeats(part())] == [1, 0, 0]


def test_texts_of_nothing_but_marks_are_told_apart() -> None:
    assert part("!!!", "...", "！").select(loose_text().n_unique()).item() == 3


def test_the_rows_of_train_that_leak_are_placed() -> None:
    frame = pl.concat([part("a", "b", "c "), part("c", split="test")])
    assert find_leaks(frame)["line"].to_list() == [2]


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_in_train_by_hand(train: list[str], test: list[str]) -> None:
    seen = {text.strip() for text in train}
    flags = in_train(part(*test), part(*train))
    assert flags.name == "in_train"
    assert flags.to_list() == [text.strip() in seen for text in test]


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_loose_counts_hold_the_exact_ones(train: list[str], test: list[str]) -> None:
    for pair in counted(train=part(*train), dev=part(), test=part(*test)):
        assert 0 <= pair["same_label"] <= pair["exact"] <= pair["normalised"] <= pair["rows"]  # type: ignore[operator]
