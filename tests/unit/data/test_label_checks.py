"""Tests of the notes on labels: several labels in one string, and several spellings of one label."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from epigram.data.corpus import spool_corpus
from epigram.data.label_values import split_labels
from epigram.data.validation.label_checks import label_notes, list_notes, visible_label
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import validate
from tests.support.sources import source

NFD = "cafe\u0301"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"pos": 9, "neg": 8}, []),
        ({"1": 9, "-1": 8, "+1": 7, "0": 6}, []),
        ({"C": 9, "C++": 8, "C#": 7, ".NET": 6}, []),
        ({"+": 9, "-": 8, "?": 7}, []),
        ({"R&D; sales": 9, "law, tax": 8}, []),
        ({"好": 9, "坏": 8}, []),
        ({"a|b": 9, "a": 8, "c": 1}, ['"a|b": 9;', 'read.label_separator: "|"', "--label-separator '|'"]),
        ({"a;b": 9, "b;c": 8}, ['"a;b", "b;c": 17;', "--label-separator ';'"]),
        ({"好、坏": 2, "好": 1}, ["--label-separator '、'"]),
        ({"['a', 'b']": 3, "['a']": 2}, ["several labels in one", ": 5;", "--label-separator '[]'"]),
        ({'{"choices": ["neg"]}': 3, "pos": 2}, ["--label-separator '[]'"]),
        ({"Pos": 3, "pos": 9}, ['"pos" (9 rows) and "Pos" (3 rows) differ only in case;', '{"Pos": "pos"}']),
        ({"ＰＯＳ": 1, "pos": 9}, ['"ＰＯＳ" (1 row) differ only in width and case;']),
        ({"好（评）": 2, "好(评)": 1}, ["differ only in width"]),
        ({"R&amp;D": 3, "R&D": 9}, ["differ only in HTML escapes;", '{"R&amp;D": "R&D"}']),
        ({"good.": 3, "good": 9}, ["differ only in surrounding punctuation;"]),
        ({"very  good": 3, "very good": 9}, ["differ only in spaces;"]),
        ({"very\xa0good": 3, "very good": 9}, ['"very\\u00a0good" (3 rows) differ only in width;']),
        ({"❤\ufe0f": 3, "❤": 9}, ["differ only in invisible characters;"]),
        ({"1.0": 3, "1": 9}, ["differ only in number format;", '{"1.0": "1"}']),
        ({"pos\u200b": 3, "pos": 9}, ['"pos\\u200b" (3 rows) differ only in invisible characters;']),
        ({"\ufeffpos": 3, "pos": 9}, ['{"\\ufeffpos": "pos"}']),
        ({"a/b": 3, "a": 9, "b": 4}, ['"a/b": 3;', "--label-separator '/'"]),
        ({"a b": 3, "a": 9, "b": 4}, ["--label-separator ' '"]),
        ({"__label__a __label__b": 3, "__label__c": 9}, ['"__label__a __label__b": 3;', "--label-separator ' '"]),
        ({"very good": 3, "good": 9}, []),
        ({"R&D": 3, "R": 9}, []),
        ({"nan": 3, "pos": 9, "NULL": 1}, ['missing values, such as "nan", "NULL": 4; if these texts have no label']),
        ({"\\N": 3, "N": 9}, ["missing values"]),
        ({"N": 3, "nano": 9, "no": 1}, []),
        ({".": 3, "..": 9}, ['missing values, such as ".": 3']),
        ({NFD: 3, "café": 9}, ['"cafe\\u0301" (3 rows) differ only in Unicode normalization;']),
    ],
)
def test_a_note_names_labels_rows_and_the_setting(rows: dict[str, int], said: list[str]) -> None:
    notes = label_notes(rows)
    assert len(notes) == bool(said)
    assert all(part in notes[0] for part in said)


def test_many_spellings_get_one_line() -> None:
    spelled = {name: 1 for place in range(9) for name in (f"a{place}", f"A{place}")}
    notes = label_notes(spelled | {"b": 1, "c": 1})
    assert len(notes) == 6 and notes[-1] == "4 more groups of labels differ only in spelling"


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({("a",): 3, ("a", "b"): 1, (): 2}, ""),
        ({("a",): 3, ("b",): 1}, "no row has several labels"),
        ({("a",): 3, ("b",): 1, (): 2}, "rows with an empty list of labels: 2;"),
    ],
)
def test_lists_without_several_labels_are_noted(lists: dict[tuple[str, ...], int], said: str) -> None:
    notes = list_notes(lists)
    assert len(notes) == bool(said)
    assert not said or said in notes[0]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("pos\u200b", "pos"),
        ("\ufeffpos ", "pos"),
        (NFD, "café"),
        ("a\u200db", "a\u200db"),
        ("a\u200d", "a"),
        ("Ａ", "Ａ"),
    ],
)
def test_only_what_cannot_be_seen_is_repaired(label: str, shown: str) -> None:
    assert visible_label(label) == shown


@pytest.mark.parametrize(
    ("cell", "separator", "labels"),
    [
        ("a| b||", "|", ["a", "b"]),
        ("['a', 'b']", "[]", ["a", "b"]),
        ("['a' 'b']", "[]", ["a", "b"]),
        ("['a', None]", "[]", ["a"]),
        ("[a, null]", "[]", ["a"]),
        ('["a, b", "c\\u597d", "\\ud83d\\ude00"]', "[]", ["a, b", "c好", "😀"]),
        ("[\"don't\", 'it\\'s']", "[]", ["don't", "it's"]),
        ("[a, b]", "[]", ["a", "b"]),
        ("[1, 2]", "[]", ["1", "2"]),
        ("[1, 'a']", "[]", ["[1, 'a']"]),
        ("[]", "[]", []),
        (" pos ", "[]", ["pos"]),
        ("", "[]", []),
        ('{"choices": ["neg", "pos"]}', "[]", ["neg", "pos"]),
        ("{'choices': ['neg']}", "[]", ["neg"]),
        ("['a\\x']", "[]", ["['a\\x']"]),
    ],
)
def test_labels_in_one_string(cell: str, separator: str, labels: list[str]) -> None:
    assert split_labels(cell, separator) == labels


def test_the_report_repeats_the_notes(tmp_path: Path) -> None:
    rows = "a0,x\na1,X\na2,x\na3,y|x\na4,y|x\na5,X\n" * 2
    (tmp_path / "x.csv").write_text(f"text,label\n{rows}text,label\n")
    headers = Counter[str]()
    about = source({"reader": "csv"})
    frame = spool_corpus(about, tmp_path, tmp_path, headers)
    notes = validate(frame, about, ValidateSettings(on_leak="report", dev=0.2, test=0.2), headers).corpus.notes
    assert "Rows of x.csv that repeat the column names: 1 left out." in notes
    assert any(
        note.startswith('Rows with labels that look like several labels in one, such as "y|x": 4;') for note in notes
    )
    assert any(note.startswith('The labels "x" (4 rows) and "X" (4 rows) differ only in case;') for note in notes)
