"""Tests of readers of user files: every column mapping, and a one-line error for every malformed file."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.source import RowSample
from epigram.data.splitting import sample_rows
from epigram.data.validation.cross_row_rules import find_conflicts, find_duplicates
from epigram.data.validation.row_index import Rows
from epigram.data.validation.row_rules import scan_rows
from tests.support.sources import CSV, corpus, source


def test_a_csv(tmp_path: Path) -> None:
    frame = corpus(tmp_path, CSV, {"reader": "csv", "names": {"1": "positive", "0": "negative"}})
    assert frame.columns == ["text", "label", "split", "file", "line"]
    assert frame.rows() == [
        ("good film", "positive", None, "x.csv", 2),
        ("好看", "positive", None, "x.csv", 3),
        ("so so", "negative", None, "x.csv", 4),
    ]


def test_columns_by_other_names_splits_and_kept_columns(tmp_path: Path) -> None:
    content = "part;stars;title;body;id\ntrain;5;Great; I liked it ;a\nvalidation; 1 ;Bad;No;b\n"
    read = {"reader": "csv", "separator": ";", "text": ["title", "body"], "label": "stars", "split": "part"}
    splits = {"train": ["train"], "dev": ["valid", "validation"]}
    frame = corpus(tmp_path, content, read, splits=splits, keep=["id"], rows={"train": 1, "dev": 1, "all": 2})
    assert frame.select("text", "label", "split", "id").rows() == [
        ("Great  I liked it", "5", "train", "a"),
        ("Bad No", "1", "dev", "b"),
    ]


def test_no_header_and_plain_quotation_marks(tmp_path: Path) -> None:
    content = '1\t"The best" of all\r\n0\tsay "no\r\n'
    read = {"reader": "csv", "separator": "\t", "quote": None, "header": ["label", "text"]}
    frame = corpus(tmp_path, content, read)
    assert frame.select("label", "text", "line").rows() == [("1", '"The best" of all', 1), ("0", 'say "no', 2)]


def test_blank_lines_are_no_rows_and_quoted_line_breaks_are_text(tmp_path: Path) -> None:
    frame = corpus(tmp_path, 'text,label\n"two\nlines",1\n\n"a ""word""",0\n\n', {"reader": "csv"})
    assert frame["text"].to_list() == ["two\nlines", 'a "word"']


def test_labels_of_a_text(tmp_path: Path) -> None:
    frame = corpus(
        tmp_path, "text,label\na,sport | news\nb,news\nc,\n", {"reader": "csv", "label_separator": "|"}, task="multi"
    )
    assert frame["labels"].to_list() == [["sport", "news"], ["news"], []]
    with pytest.raises(ParameterError, match="set label_separator"):
        corpus(tmp_path, CSV, {"reader": "csv"}, task="multi")
    assert corpus(tmp_path, CSV, {"reader": "csv", "label_separator": "|"})["label"].to_list() == ["1", "1", "0"]
    with pytest.raises(ParameterError, match="a row has several labels; set task: multi"):
        corpus(tmp_path, "text,label\na,1|2\n", {"reader": "csv", "label_separator": "|"})


def test_a_label_that_a_text_has_twice_counts_once(tmp_path: Path) -> None:
    """Also if two labels in the file have one name: both rows have the label s."""
    read = {"reader": "csv", "label_separator": "|", "names": {"sport": "s", "sports": "s"}}
    content = "text,label\nthe goal,sport|sports\nthe goal,sport\nmarkets,news|s|news\nplain,\n"
    frame = corpus(tmp_path, content, read, task="multi")
    assert frame["labels"].to_list() == [["s"], ["s"], ["news", "s"], []]
    scan = scan_rows(Rows(frame.head(2).lazy()), "multi", [])
    assert find_duplicates(scan.index.repeated)["row"].to_list() == [1]
    assert find_conflicts(scan.index.repeated).is_empty()
    assert scan.index.labels.counts(np.ones(2, np.bool_)) == {"s": 2}


def test_only_named_labels(tmp_path: Path) -> None:
    read = {"reader": "csv", "names": {"1": "yes"}, "named_only": True}
    assert corpus(tmp_path, CSV, read)["label"].to_list() == ["yes", "yes"]
    many = corpus(tmp_path, "text,label\na,1|2\nb,2\n", read | {"label_separator": "|"}, task="multi")
    assert many["labels"].to_list() == [["yes"]]


def test_jsonl_with_a_late_key_and_mixed_types(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": f"t{place}"} for place in range(150)]
    rows += [{"text": "late", "label": 1}, {"text": "word", "label": "x"}]
    frame = corpus(tmp_path, "\n".join(map(json.dumps, rows)), {"reader": "jsonl"})
    assert frame["label"].to_list()[-3:] == [None, "1", "x"]
    assert frame["line"].to_list()[-1] == 152


def test_other_keys_of_json_lines_are_not_interpreted(tmp_path: Path) -> None:
    content = (
        '{"text": "a", "label": "x", "m": {"a": 1}, "id": 1, "id": 2, "f": NaN}\n\n'
        '{"m": {"b": "x"}, "label": NaN, "text": "b", "id": 9007199254740993, "f": -Infinity, "meta": {"text": 1}}\n'
        '{"text": 7, "label": "text", "m": [1]}'
    )
    frame = corpus(tmp_path, content, {"reader": "jsonl"})
    assert frame.select("text", "label", "line").rows() == [("a", "x", 1), ("b", None, 3), ("7", "text", 4)]
    kept = corpus(tmp_path, content, {"reader": "jsonl"}, keep=["m", "f"])
    assert kept.select("m", "f").rows() == [('{"a": 1}', None), ('{"b": "x"}', "-Infinity"), ("[1]", None)]


def test_objects_without_choices_are_no_labels(tmp_path: Path) -> None:
    read = {"reader": "jsonl", "label_separator": "[]"}
    assert corpus(tmp_path, '{"text": "a", "label": {"choices": ["x"]}}', read)["label"].to_list() == ["x"]
    with pytest.raises(DataError, match=r"x\.csv line 1: 'label' is \{\"x\": 1\}; expected a string"):
        corpus(tmp_path, '{"text": "a", "label": {"x": 1}}', read)


@pytest.mark.parametrize("column", ["text", "label"])
@pytest.mark.parametrize(
    "value", [b"\xff", {"a": 1}, [b"x"], timedelta(1)], ids=["bytes", "object", "list", "duration"]
)
def test_columns_of_parquet_that_are_no_text_are_refused(column: str, value: object, tmp_path: Path) -> None:
    table = pl.DataFrame({"text": ["a"], "label": ["x"], "raw": [b"\xff"]}).with_columns(pl.Series(column, [value]))
    table.write_parquet(tmp_path / "x.csv")
    with pytest.raises(DataError, match=rf"x\.csv: column '{column}' has the type .*; expected text"):
        read_corpus(source({"reader": "parquet"}), tmp_path)


def test_lists_of_labels_in_csv(tmp_path: Path) -> None:
    read = {"reader": "csv", "label_separator": "[]", "quote": None, "separator": ";"}
    frame = corpus(tmp_path, "text;label\na;['x', 'y']\nb;['x']\nc;\n", read, task="multi")
    assert frame["labels"].to_list() == [["x", "y"], ["x"], []]


def test_spans_of_a_csv_are_json(tmp_path: Path) -> None:
    content = "text;label;marks\na b;P;[[0, 1]]\na b;P;\n"
    frame = corpus(tmp_path, content, {"reader": "csv", "separator": ";", "spans": "marks"})
    assert frame["token_labels"].to_list() == [["P", "O"], ["O", "O"]]
    with pytest.raises(DataError, match=r"x\.csv:2: the spans are 'a'; expected a list"):
        corpus(tmp_path, "text,label,marks\na,P,a\n", {"reader": "csv", "spans": "marks"})


def test_a_null_in_one_of_two_text_columns_leaves_the_other(tmp_path: Path) -> None:
    content = '{"title": "Great", "body": null, "label": "1"}\n{"title": null, "body": "No", "label": "0"}\n'
    frame = corpus(tmp_path, content, {"reader": "jsonl", "text": ["title", "body"]})
    assert frame["text"].to_list() == ["Great", "No"]


def test_parquet(tmp_path: Path) -> None:
    table = pl.DataFrame({"body": ["a", "b"], "tags": [["x", "y"], ["y"]], "n": [1, 2], "other": [0.5, 1.5]})
    table.write_parquet(tmp_path / "x.csv")
    read = {"reader": "parquet", "text": "body", "label": "tags"}
    frame = read_corpus(source(read, task="multi", keep=["n"]), tmp_path)
    assert frame.select("text", "labels", "n", "line").rows() == [("a", ["x", "y"], 1, 1), ("b", ["y"], 2, 2)]
    with pytest.raises(DataError, match=r"no column 'txt'(.|\n)*'body', 'tags', 'n', 'other'"):
        read_corpus(source({"reader": "parquet", "text": "txt"}), tmp_path)


def test_evidence_becomes_token_labels(tmp_path: Path) -> None:
    rows = [
        {"text": "Didn't love it, great cast", "label": "positive", "marks": ["great cast"]},
        {"text": "fine", "label": "negative", "marks": []},
    ]
    content = "\n".join(map(json.dumps, rows))
    frame = corpus(tmp_path, content, {"reader": "jsonl", "spans": "marks"})
    assert frame["tokens"].to_list() == [["Did", "n't", "love", "it", ",", "great", "cast"], ["fine"]]
    assert frame["token_labels"].to_list() == [["O"] * 5 + ["positive"] * 2, ["O"]]
    chinese = json.dumps({"text": "不好吃 但便宜", "label": "n", "marks": [{"start": 0, "end": 3, "label": "bad"}]})
    frame = corpus(tmp_path, chinese, {"reader": "jsonl", "spans": "marks"}, language="zh")
    assert frame["tokens"].to_list() == [list("不好吃 但便宜")]
    assert frame["token_labels"].to_list() == [["bad"] * 3 + ["O"] * 4]
    for marks in (["absent"], [[2, 99]], [["x", "y"]]):
        with pytest.raises(DataError, match=r"x\.csv:1: span .* is not in the text"):
            corpus(
                tmp_path,
                json.dumps({"text": "ab", "label": "n", "marks": marks}),
                {"reader": "jsonl", "spans": "marks"},
            )


def test_token_columns(tmp_path: Path) -> None:
    read = {"reader": "csv", "tokens": "words", "token_labels": "tags"}
    frame = corpus(tmp_path, "text,label,words,tags\nI saw,1,I saw,O B\n", read)
    assert frame.select("tokens", "token_labels").row(0) == (["I", "saw"], ["O", "B"])


def test_pieces_become_one_corpus(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("text,label\nA b!,1\nc,1\na B,0\n ,1\nheld,1\n")
    (tmp_path / "test.csv").write_text("text,label\nHELD,0\nHELD,0\n")
    splits = {"train": ["one.csv"], "test": ["test.csv"]}
    frame = read_corpus(source({"reader": "csv"}, "one.csv", "test.csv", splits=splits, distinct="letters"), tmp_path)
    assert frame.select("text", "split").rows() == [
        ("A b!", "train"),
        ("c", "train"),
        ("HELD", "test"),
        ("HELD", "test"),
    ]
    exact = read_corpus(source({"reader": "csv"}, "one.csv", "test.csv", splits=splits, distinct="exact"), tmp_path)
    assert exact.filter(split="train")["text"].to_list() == ["A b!", "c", "a B", "held"]


LETTERS = {"a": 40, "b": 20, "c": 5}  # rows of train by label; test has two rows of each


def drawn(folder: Path, **changes: Any) -> pl.DataFrame:
    """Return the rows of a sample of 65 training rows, whose labels alternate, and six rows of test."""
    rows = sorted((place, label) for label, count in LETTERS.items() for place in range(count))
    train = "".join(f"{label}{place},{label}\n" for place, label in rows)
    (folder / "train.csv").write_text(f"text,label\n{train}")
    (folder / "test.csv").write_text("text,label\n" + "".join(f"{c}0,{c}\nheld {c},{c}\n" for c in LETTERS))
    splits = {"train": ["train.csv"], "test": ["test.csv"]}
    return read_corpus(source({"reader": "csv"}, "train.csv", "test.csv", splits=splits, **changes), folder)


def counts(frame: pl.DataFrame) -> dict[str, dict[str, int]]:
    return {
        split: {label: frame.filter(split=split, label=label).height for label in LETTERS}
        for split in ("train", "dev", "test")
    }


NONE = dict.fromkeys(LETTERS, 0)


@pytest.mark.parametrize(
    ("sample", "changes", "train", "dev", "test"),
    [
        ({"per_class": 10}, {}, {"a": 10, "b": 10, "c": 5}, NONE, dict.fromkeys(LETTERS, 2)),
        # test is drawn from all rows, 0.15 of 42, 22 and 7: 36, 19 and 6 rows are for training
        ({"resplit": {"train": 0.85, "test": 0.15}}, {}, {"a": 36, "b": 19, "c": 6}, NONE, {"a": 6, "b": 3, "c": 1}),
        # without the three rows that both files have
        (
            {"resplit": {"train": 0.8, "dev": 0.1, "test": 0.1}, "per_class": 20},
            {"distinct": "exact"},
            {"a": 16, "b": 16, "c": 5},
            {"a": 2, "b": 2, "c": 0},
            {"a": 2, "b": 2, "c": 1},
        ),
    ],
)
def test_a_sample_has_so_many_rows_of_each_label(
    sample: dict[str, Any], changes: Any, train: Any, dev: Any, test: Any, tmp_path: Path
) -> None:
    frame = drawn(tmp_path, sample=RowSample(**sample), **changes)
    assert counts(frame) == {"train": train, "dev": dev, "test": test}
    expected = {name: sum(each.values()) for name, each in (("train", train), ("dev", dev), ("test", test))}
    drawn(tmp_path, sample=RowSample(**sample), rows=expected, **changes)
    place = {text: n for n, text in enumerate(drawn(tmp_path)["text"].unique(maintain_order=True).to_list())}
    if changes:
        assert [place[text] for text in frame["text"]] == sorted(place[text] for text in frame["text"])


def test_a_sample_is_random_and_follows_its_seed(tmp_path: Path) -> None:
    """Each row is drawn in about a quarter of 200 samples, and goes to test in about a fifth of them."""
    first, again, other = (
        drawn(tmp_path, sample=RowSample(per_class=10, seed=seed)).filter(split="train")["text"].to_list()
        for seed in (3, 3, 4)
    )
    assert first == again != other
    frame = pl.DataFrame({"label": ["a"] * 40, "split": [None] * 40, "text": range(40)}, schema_overrides=STRINGS)
    kept, held = np.zeros(40), np.zeros(40)
    for seed in range(200):
        part = sample_rows(frame, RowSample(per_class=10, resplit={"train": 0.8, "test": 0.2}, seed=seed))
        kept[part["text"].to_numpy()] += 1
        held[part.filter(split="test")["text"].to_numpy()] += 1
    assert kept.sum() == 2_000 and held.sum() == 400
    assert kept.min() > 25 and kept.max() < 75  # 50 ± 4 standard deviations of 6.1
    assert held.max() < 25  # 10 ± 5 standard deviations of 3.1


STRINGS = {"split": pl.String}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", r"x\.csv is empty"),
        (
            "很好，下次还来，谢谢老板,1\n".encode("gbk"),
            r"x\.csv is not UTF-8 at byte 0 in line 1; the encoding is probably gb18030; set read\.encoding: gb18030",
        ),
        ("text,label\n這間酒店的環境和服務態度都很好,1\n".encode("big5"), "probably big5hkscs"),
        (
            "text,label\ncafé crème,1\n".encode("latin-1"),
            r"UTF-8 at byte 14 in line 2; the encoding is probably cp1252",
        ),
        ("text,label\n“café”,1\n".encode("cp1252"), "probably cp1252"),
        ("text,label\na,1\n".encode("utf-16"), "probably utf-16"),
        ("text,label\na,1\n".encode("utf-16-le"), "probably utf-16-le"),
        ("text,label\n" + "字" * 3_000_000 + ",1\n".encode("latin-1").decode(), "fine"),
        (b"text,label\na,1\nb\0,1\n", r"x\.csv has a NUL byte in line 3"),
        ("review,stars\na,1\n", r"x\.csv has no column 'text'; its columns: review, stars"),
        ("texts,label\na,1\n", r"no column 'text'; did you mean 'texts'\?"),
        ("text,text,label\na,b,1\n", "two columns named 'text'"),
        ("text,label\nfine,1\nhello, world,1\n", r"x\.csv line 3 has 3 values for 2 columns: 'hello, world,1'"),
        ('text,label\n"never closed,1\nb,2\n', r"x\.csv line 2 has a quote that is not closed"),
    ],
)
def test_a_wrong_csv_gets_one_clear_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    if words == "fine":  # the long field spans several blocks of the check
        assert corpus(tmp_path, content, {"reader": "csv"}).height == 1
        return
    with pytest.raises(DataError, match=words):
        corpus(tmp_path, content, {"reader": "csv"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"text": "a", "label": "x"}\nnot json\n', r"x\.csv line 2 is not a JSON object: 'not json'"),
        ("[1, 2]\n", "line 1 is not a JSON object"),
        ('{"text": "a", "label": "x"', "line 1 is not a JSON object"),
        ('{"txt": "a", "label": "x"}\n', r"no column 'text'; did you mean 'txt'\?"),
        (
            '{"text": "a", "label": "x"}\n\n{"text": {"a": 1}, "label": "x"}\n',
            r"""x\.csv line 3: 'text' is \{"a": 1\}; expected a string or a number$""",
        ),
        ('{"text": ["a"], "label": "x"}\n', r"""x\.csv line 1: 'text' is \["a"\]; expected a string"""),
        ('{"text": "a", "label": [["x"]]}\n', r"""x\.csv line 1: 'label' is \[\["x"\]\]; expected a string"""),
        (
            '{"text": "a", "label": {"choices": ["x"]}}\n',
            r"""expected a string .* for labels of this form, set read\.label_separator: '\[\]'$""",
        ),
        ('{"text": "a", "label": [{"choices": ["x"]}]}\n', r"expected a string or a number$"),
        ('{"text": "a", "label": "x", "text": "b"}\n', r"x\.csv line 1 has the key 'text' twice"),
    ],
)
def test_a_wrong_jsonl_gets_one_clear_line(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        corpus(tmp_path, content, {"reader": "jsonl"})


def test_a_missing_file_and_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"x\.csv is missing; run the download stage"):
        read_corpus(source({"reader": "csv"}), tmp_path)
    with pytest.raises(ParameterError, match=r"unknown reader 'cvs'; did you mean 'csv'\?"):
        corpus(tmp_path, CSV, {"reader": "cvs"})
    with pytest.raises(ParameterError, match=r"toy\.yaml: read of x\.csv: seperator is not a setting.*'separator'"):
        corpus(tmp_path, CSV, {"reader": "csv", "seperator": ";"})
    with pytest.raises(ParameterError, match=r"read\.separator is '::'"):
        corpus(tmp_path, CSV, {"reader": "csv", "separator": "::"})
    with pytest.raises(ParameterError, match="has only files and no texts"):
        read_corpus(source({}), tmp_path)


def test_what_a_source_promises_is_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"toy has 3 rows \(all\), expected 4"):
        corpus(tmp_path, CSV, {"reader": "csv"}, rows={"all": 4})
    with pytest.raises(DataError, match=r"toy has 3 rows \(all\), expected 2"):
        corpus(tmp_path, CSV, {"reader": "csv"}, rows={"all": 2})
    with pytest.raises(DataError, match="`keep` lists the column 'topic'"):
        corpus(tmp_path, CSV, {"reader": "csv"}, keep=["topic"])
    with pytest.raises(DataError, match=r"x\.csv:3 has the unknown split 'tset'.*train"):
        corpus(
            tmp_path,
            "text,label,part\na,1,train\nb,1,tset\n",
            {"reader": "csv", "split": "part"},
            splits={"train": ["train"]},
        )


def test_a_column_of_splits_needs_no_map(tmp_path: Path) -> None:
    content = "text,label,part\n" + "".join(
        f"t,1,{name}\n" for name in ("train", "Training", "dev", "VALIDATION", " valid", "val", "test", "Testing")
    )
    frame = corpus(tmp_path, content, {"reader": "csv", "split": "part"})
    assert frame["split"].to_list() == ["train"] * 2 + ["dev"] * 4 + ["test"] * 2
    rows: list[dict[str, Any]] = [{"text": "a", "label": "1", "part": "test"}, {"text": "b", "label": "1"}]
    frame = corpus(tmp_path, "\n".join(map(json.dumps, rows)), {"reader": "jsonl", "split": "part"})
    assert frame["split"].to_list() == ["test", None]


@pytest.mark.parametrize("name", ["Tset", ""])
def test_a_split_that_nobody_knows_is_named(tmp_path: Path, name: str) -> None:
    content = f"text,label,part\na,1,train\nb,1,{name}\n"
    with pytest.raises(DataError, match=rf"x\.csv:3 has the unknown split '{name}'; .* train.*toy\.yaml"):
        corpus(tmp_path, content, {"reader": "csv", "split": "part"})


def test_columns_are_taken_by_their_exact_names(tmp_path: Path) -> None:
    table = pl.DataFrame({"*": ["good"], "^.*$": ["film"], "label": ["1"], "#row": ["r"], "#key": ["k"]})
    read = {"text": ["*", "^.*$"], "label": "label"}
    keep = ["#row", "^.*$", "#key"]
    for reader, write in (("csv", table.write_csv), ("jsonl", table.write_ndjson), ("parquet", table.write_parquet)):
        write(tmp_path / "x.csv")
        frame = read_corpus(source({"reader": reader, **read}, keep=keep, distinct="exact"), tmp_path)
        assert frame.columns == ["text", "label", "split", "file", "line", *keep]
        assert frame.select("text", *frame.columns[5:6]).row(0) == ("good film", "r")
    with pytest.raises(DataError, match=r"no column '\^text\$'"):
        corpus(tmp_path, CSV, {"reader": "csv", "text": "^text$"})
