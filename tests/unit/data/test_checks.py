"""Tests of validation rules: one error lists every broken row with its location, value and rule."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epigram.core.errors import DataError
from epigram.data.validation import violations
from epigram.data.validation.cross_row_rules import (
    apply_rules,
    check_classes,
    find_conflicts,
    find_duplicates,
    find_unseen_labels,
)
from epigram.data.validation.row_index import NO_SPLIT, Rows
from epigram.data.validation.row_rules import RowScan, check_rows, corpus_schema, scan_rows

REPORT = dict.fromkeys(violations.SETTINGS, "report") | {violations.NO_LABEL: "fail"}
NASTY = st.text(
    st.one_of(
        st.characters(max_codepoint=0x2FFF),
        st.sampled_from(list("\0\ufffd\ufeff\u200b\u200d\u3000\xa0\r\n\t 好A,\"'<&😀")),
    ),
    max_size=6,
)


def corpus(*rows: tuple[object, ...], columns: str = "text label split") -> pl.DataFrame:
    names = columns.split()
    kinds = {name: pl.List(pl.String) if name in {"labels", "tokens", "token_labels"} else pl.String for name in names}
    frame = pl.DataFrame(rows, schema=kinds, orient="row")
    if "split" not in names:
        frame = frame.with_columns(split=pl.lit("train"))
    return frame.with_columns(
        row=pl.int_range(pl.len(), dtype=pl.Int64), file=pl.lit("a.tsv"), line=pl.int_range(pl.len()) + 2
    )


def looked(frame: pl.DataFrame, labels: Sequence[str] = ()) -> RowScan:
    tokens = "tokens" in frame.columns
    return scan_rows(Rows(frame.drop("row").lazy()), "single", labels, tokens=tokens)


def small_classes(frame: pl.DataFrame, labels: Sequence[str], least: int) -> pl.DataFrame:
    seen = looked(frame)
    return check_classes(seen, seen.index.split, labels, least)


def unseen(frame: pl.DataFrame) -> pl.DataFrame:
    seen = looked(frame)
    return find_unseen_labels(seen, seen.index.split)


def broken(found: pl.DataFrame) -> list[tuple[int, str]]:
    return sorted(found.select("row", "rule").iter_rows())


def test_each_row_fault_is_placed() -> None:
    frame = corpus(
        ("fine", "a", "train"),
        (" \u3000\u200b", "a", "train"),
        ("nul\0", "b", "train"),
        ("bad \ufffd", "b", "dev"),
        ("no label", None, "dev"),
        ("blank label", " ", "dev"),
        ("slip", "aa", "test"),
        ("where", "a", "training"),
    )
    found = check_rows(frame, corpus_schema("single", ["a", "b"]))
    assert broken(found) == [
        (1, violations.EMPTY),
        (2, violations.NUL),
        (3, violations.REPLACEMENT),
        (4, violations.NO_LABEL),
        (5, violations.NO_LABEL),
        (6, violations.UNKNOWN_LABEL),
        (7, violations.UNKNOWN_SPLIT),
    ]
    slip = found.filter(pl.col("rule") == violations.UNKNOWN_LABEL).row(0, named=True)
    assert (slip["file"], slip["line"], slip["column"], slip["value"]) == ("a.tsv", 8, "label", "aa")


def test_any_label_is_allowed_where_none_are_declared() -> None:
    assert check_rows(corpus(("x", "whatever", "train")), corpus_schema("single", [])).is_empty()


def test_labels_of_a_multi_label_corpus() -> None:
    frame = corpus(("x", ["a", "b"]), ("y", ["a", "c"]), ("z", []), ("w", None), ("v", [None]), columns="text labels")
    found = check_rows(frame, corpus_schema("multi", ["a", "b"]))
    assert broken(found) == [(1, violations.UNKNOWN_LABEL), (3, violations.NO_LABEL), (4, violations.UNKNOWN_LABEL)]
    assert found["value"][0] == "a c"


def test_token_labels_must_pair_with_tokens() -> None:
    frame = corpus(
        ("I am", "a", ["I", "am"], ["O", "O"]),
        ("I am", "a", ["I", "am"], ["O"]),
        ("no tokens", "a", None, None),
        ("half", "a", ["half"], None),
        ("slip", "a", ["slip"], [" "]),
        columns="text label tokens token_labels",
    )
    found = check_rows(frame, corpus_schema("single", ["a"], tokens=True))
    assert broken(found) == [(1, violations.TOKEN_COUNT), (3, violations.TOKEN_COUNT), (4, violations.NO_TOKEN_LABEL)]


def test_a_missing_or_mistyped_column_is_named() -> None:
    frame = corpus(("x", "a", "train"))
    with pytest.raises(DataError, match=r"2 violations.*\n(.*\n)?label missing column"):
        check_rows(frame.drop("label").with_columns(text=pl.lit(1)), corpus_schema("single", []))
    with pytest.raises(DataError, match='text="Int32" wrong type'):
        check_rows(frame.with_columns(text=pl.lit(1, pl.Int32)), corpus_schema("single", []))


@given(st.lists(NASTY, min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_nasty_texts_are_judged_one_by_one(texts: list[str]) -> None:
    found = check_rows(corpus(*((text, "a", "train") for text in texts)), corpus_schema("single", ["a"]))
    unreadable = {"Zs", "Zl", "Zp", "Cc", "Cf"}
    expected = [
        (row, rule)
        for row, text in enumerate(texts)
        for rule, broken_here in (
            (violations.EMPTY, all(unicodedata.category(sign) in unreadable for sign in text)),
            (violations.NUL, "\0" in text),
            (violations.REPLACEMENT, "\ufffd" in text),
        )
        if broken_here
    ]
    assert broken(found) == sorted(expected)


@given(st.lists(st.tuples(st.sampled_from(["x", " x", "x\n", "y", "z"]), st.sampled_from("ab")), max_size=12))
@settings(max_examples=60, deadline=None)
def test_duplicates_and_conflicts_by_hand(rows: list[tuple[str, str]]) -> None:
    frame = corpus(*((text, label, "train") for text, label in rows))
    seen: Counter[tuple[str, str]] = Counter()
    later = []
    for row, (text, label) in enumerate(rows):
        later += [row] if seen[text.strip(), label] else []
        seen[text.strip(), label] += 1
    assert find_duplicates(frame)["row"].to_list() == later
    torn = [row for row, (text, _) in enumerate(rows) if seen[text.strip(), "a"] and seen[text.strip(), "b"]]
    assert find_conflicts(frame)["row"].to_list() == torn


def test_the_order_of_labels_makes_no_conflict() -> None:
    frame = corpus(("x", ["a", "b"]), ("x", ["b", "a"]), columns="text labels")
    assert find_conflicts(frame).is_empty()
    assert find_duplicates(frame)["row"].to_list() == [1]


def test_classes_need_rows() -> None:
    frame = corpus(("x", "a", "train"), ("y", "a", "train"), ("z", "b", "train"), ("w", "b", "dev"))
    small = small_classes(frame, ["a", "b", "c"], 2)
    assert small["value"].to_list() == ["b: 1 of 2 rows", "c: 0 of 2 rows"]
    assert small_classes(frame.filter(pl.col("label") == "a"), ["a", "b"], 2)["rule"].to_list() == [
        violations.ONE_CLASS
    ]
    assert small_classes(frame.tail(1), ["a", "b"], 2)["rule"].to_list() == [violations.NO_TRAIN]


def test_a_label_that_train_lacks_is_shown_once() -> None:
    frame = corpus(("x", "a", "train"), ("y", "b", "dev"), ("z", "b", "test"))
    assert unseen(frame).select("line", "value").rows() == [(3, "b")]


def test_a_token_label_that_train_lacks_is_shown_once() -> None:
    columns = "text label split tokens token_labels"
    frame = corpus(
        ("x", "a", "train", ["x"], ["O"]),
        ("y z", "a", "dev", ["y", "z"], ["O", "P"]),
        ("p", "a", "test", ["p"], ["P"]),
        columns=columns,
    )
    assert unseen(frame).select("line", "value", "rule").rows() == [(3, "P", violations.UNSEEN_TOKEN_LABEL)]


def test_a_file_name_forges_no_line_of_a_message() -> None:
    """An archive can have files of such names."""
    frame = corpus(("x", "aa", "train")).with_columns(file=pl.lit("a\nerror: x"))
    with pytest.raises(DataError) as error:
        apply_rules(looked(frame, ["a"]), ["a"], 1, REPORT)
    assert not [line for line in str(error.value).splitlines() if line.startswith("error:")]


def test_all_faults_stand_in_one_message() -> None:
    frame = corpus(("", "a", "train"), ("x", "aa", "train"), ("y\0", "a", "train"), ("z", "a", "train"))
    with pytest.raises(DataError) as error:
        apply_rules(looked(frame, ["a", "b"]), ["a", "b"], 1, REPORT | {violations.EMPTY: "fail"})
    first, *details = str(error.value).split("\n")
    assert first.startswith(
        "4 violations in a.tsv: 1 × empty text, 1 × unknown label, 1 × NUL byte, 1 × only one class"
    )
    assert first.endswith("fix the data, or set validate.on_empty to drop in params.yaml")
    assert details == [
        'a.tsv:2 text="" empty text',
        'a.tsv:3 label="aa" unknown label',
        'a.tsv:4 text="y\\u0000" NUL byte',
        'label="a" only one class',
        "known labels: a, b",
    ]


def test_a_long_list_of_faults_is_cut_with_every_rule_in_it() -> None:
    frame = corpus(*(("", "a", "train") for _ in range(50)), ("z", "zz", "train"), ("b", "b", "train"))
    with pytest.raises(DataError) as error:
        apply_rules(looked(frame, ["a", "b"]), ["a", "b"], 1, REPORT | {violations.EMPTY: "fail"})
    lines = str(error.value).split("\n")
    assert len(lines) == 1 + violations.MAX_LISTED + 2
    assert 'a.tsv:52 label="zz" unknown label' in lines
    assert lines[-2] == "and 31 more"


def test_dropped_rows_are_counted_and_gone() -> None:
    frame = corpus(
        ("", "a", "train"),
        ("same", "a", "train"),
        (" same", "a", "train"),
        ("torn", "a", "train"),
        ("torn", "b", "train"),
        ("leak", "b", "train"),
        ("more", "b", "train"),
        ("leak", "b", "test"),
        ("bare", " ", "train"),
        ("", None, "train"),
    )
    verdict = apply_rules(looked(frame, ["a", "b"]), ["a", "b"], 1, dict.fromkeys(violations.SETTINGS, "drop"))
    assert np.flatnonzero(verdict.kept != NO_SPLIT).tolist() == [1, 6, 7]
    assert verdict.dropped == {
        **{violations.EMPTY: 2, violations.NO_LABEL: 2},
        **{violations.DUPLICATE: 1, violations.CONFLICT: 2, violations.LEAK: 1},
    }


def test_what_is_only_reported_stays() -> None:
    frame = corpus(("x", "a", "train"), ("x", "b", "train"), ("x", "b", "train"), ("x", "b", "dev"))
    verdict = apply_rules(looked(frame), ["a", "b"], 1, REPORT)
    assert verdict.kept.tolist() == [0, 0, 0, 1]
    assert verdict.dropped == {}
    assert violations.count_by_rule(verdict.violations) == {
        violations.DUPLICATE: 1,
        violations.CONFLICT: 3,
        violations.LEAK: 3,
    }


def test_a_text_with_a_replacement_character_is_compared_with_others() -> None:
    rows = [("caf\ufffd", "a", "train"), ("caf\ufffd", "a", "train"), ("tea", "b", "train"), ("caf\ufffd", "a", "test")]
    verdict = apply_rules(looked(corpus(*rows)), ["a", "b"], 1, REPORT)
    assert violations.count_by_rule(verdict.violations) == {
        violations.REPLACEMENT: 3,
        violations.DUPLICATE: 1,
        violations.LEAK: 2,
    }


def test_a_class_emptied_by_a_drop_is_refused() -> None:
    frame = corpus(("x", "a", "train"), ("y", "b", "train"), ("z", "b", "train"), ("x", "a", "dev"))
    with pytest.raises(DataError, match="only one class"):
        apply_rules(looked(frame), ["a", "b"], 1, REPORT | {violations.LEAK: "drop"})
