"""Rows of csv files: separators, line ends, blank lines, spaces around quotes, column names and line numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.data import chunks
from epigram.data.incoming_rows import read_file, read_rows
from epigram.data.tables import detect, open_table, reader_of
from epigram.data.validation.settings import ValidateSettings
from tests.support.sources import corpus, source


def rows_of(path: Path, **options: Any) -> tuple[dict[str, Any], list[str], list[tuple[Any, ...]]]:
    """Return the detected options, the columns, and the line and the values of each row."""
    found = detect(path, options)
    tables = [table.insert_column(0, lines.alias("#")) for lines, table in reader_of(found).tables(path)]
    every = pl.concat(tables)
    return {key: value for key, value in found.items() if key != "reader"}, every.columns[1:], every.rows()


GOOD, BAD = (2, "good", "1"), (3, "bad", "0")


@pytest.mark.parametrize("size", [chunks.CHUNK_SIZE, 16, 5, 1])
@pytest.mark.parametrize(
    ("name", "content", "options", "rows"),
    [
        ("a.csv", "text,label\ngood,1\nbad,0\n", {}, [GOOD, BAD]),
        ("a.csv", "text;label\ngood;1\nbad;0\n", {"separator": ";"}, [GOOD, BAD]),
        ("a.csv", "text|label\ngood|1\nbad|0", {"separator": "|"}, [GOOD, BAD]),
        ("a.csv", "text\tlabel\ngood\t1\nbad\t0", {"separator": "\t"}, [GOOD, BAD]),
        ("a.tsv", "text\tlabel\ngood\t1\nbad\t0", {"separator": "\t"}, [GOOD, BAD]),
        ("a.tsv", "text,label\ngood,1\nbad,0\n", {}, [GOOD, BAD]),
        ("a.tsv", 'text,label\n"good, nice",1\nbad,0\n', {}, [(2, "good, nice", "1"), BAD]),
        ("a.csv", "text;label\ngood, nice;1\nbad;0\n", {"separator": ";"}, [(2, "good, nice", "1"), BAD]),
        ("a.csv", '"text, label"\ngood\n', {}, [(2, "good")]),
        ("a.tsv", "text\tlabel|id\na|b\t1\nc|d\t0\n", {"separator": "\t"}, [(2, "a|b", "1"), (3, "c|d", "0")]),
        ("a.csv", "sep=;\ntext;label\ngood;1\nbad;0\n", {"separator": ";"}, [(3, "good", "1"), (4, "bad", "0")]),
        ("a.csv", "sep=^\ntext^label\ngood^1\n", {"separator": "^"}, [(3, "good", "1")]),
        ("a.csv", "sep=,\r\ntext,label\r\ngood,1\r\n", {}, [(3, "good", "1")]),
        ("a.csv", "text,label\rgood,1\rbad,0\r", {}, [GOOD, BAD]),
        ("a.csv", "text,label\r\ngood,1\r\nbad,0\r\n", {}, [GOOD, BAD]),
        ("a.csv", "text,label\rgood,1\rbad,0\r\nso,1\n", {}, [GOOD, BAD, (4, "so", "1")]),
        ("a.csv", "label,text\n1,go\rod\r\n0,b\rad\n", {}, [(2, "1", "go\rod"), (3, "0", "b\rad")]),
        ("a.csv", "id,text,label\n1,go\rod,1\n2,bad,0\n", {}, [(2, "1", "go\rod", "1"), (3, "2", "bad", "0")]),
        ("a.csv", "text,label\ngood,1\n\nbad,0\n\n  \n\r\n", {}, [GOOD, (4, "bad", "0")]),
        ("a.csv", '\n\ntext\n""\n\nbad\n', {}, [(4, ""), (6, "bad")]),
        ("a.csv", "text,label\n,\nbad,0\n", {}, [BAD]),
        ("a.csv", 'text,label\n"a\nb",1\nf,1\n', {}, [(2, "a\nb", "1"), (4, "f", "1")]),
        ("a.csv", 'text,label\n"c\r\nd\re",0\r\nf,1\n', {}, [(2, "c\r\nd\re", "0"), (4, "f", "1")]),
        ("a.csv", '"text" ,"label"\n"good" ,"1"\n"bad","0"  \n', {}, [GOOD, BAD]),
        ("a.csv", 'text, label\n"so, so", "1"\n', {}, [(2, "so, so", "1")]),
        ("a.csv", 'label,text\n1, "say ""so"", so"\n', {}, [(2, "1", 'say "so", so')]),
        ("a.csv", 'text,label\n"say ""so"" , ""no""",1\n', {}, [(2, 'say "so" , "no"', "1")]),
        ("a.csv", 'text,label\n x , "y" z\n', {}, [(2, " x ", ' "y" z')]),
        ("a.csv", "text,label\ngood\n", {}, [(2, "good", "")]),
        ("a.csv", 'text,label\n5" x 7",1\n"say ""so""",0\n', {}, [(2, '5" x 7"', "1"), (3, 'say "so"', "0")]),
        ("a.tsv", 'text\tlabel\n"say "so" now"\t1\n', {"separator": "\t", "quote": None}, [(2, '"say "so" now"', "1")]),
    ],
)  # fmt: skip
def test_rows_are_read_with_their_lines(
    name: str,
    content: str,
    options: dict[str, Any],
    rows: list[tuple[Any, ...]],
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", size)
    (tmp_path / name).write_bytes(content.encode())
    assert rows_of(tmp_path / name)[::2] == (options, rows)


@pytest.mark.parametrize(
    ("name", "content", "given", "said"),
    [
        (
            "a.csv",
            "text;label|more\na;b|c\n",
            {},
            "several possible separators in its header.*--separator ';'",
        ),
        ("a.csv", "text,label\na,b\nc,d,e\n", {}, "line 3 has 3 values for 2 columns: 'c,d,e'"),
        ("a.csv", "text,label\ngood,1\r\nbad,0\rso,1", {}, r"line 3 has 3 values for 2 columns: 'bad,0\\rso,1'"),
        ("a.csv", 'text,label\n"a\nb",1\nc,d,e\n', {}, "line 4 has 3 values for 2 columns: 'c,d,e'"),
        ("a.csv", 'text,label\n"a"b,1\n"c",d\n', {}, "line 2 has text outside the quotes of a value: '\"a\"b,1'"),
        ("a.csv", 'text,label\n"c",d\n"say "so" now",1\n', {}, "line 3 has text outside the quotes of a value"),
        ("a.csv", 'text,label\n"c",d\n"a,1\nb,2\n', {}, "line 3 has a quote that is not closed: '\"a,1"),
        ("a.csv", 'text,label\n"c",d\n"a","b""', {}, "line 3 has a quote that is not closed"),
        ("a.csv", "\n\n", {}, "a.csv has only blank lines"),
        ("a.csv", "a,b,a,a\n1,2,3,4\n", {}, r"a.csv has two columns named 'a' \(columns 1 and 3\)"),
        ("a.csv", "text,,\n1,2,3\n", {}, r"a.csv has two columns named '' \(columns 2 and 3\)"),
    ],
)
def test_what_cannot_be_read_is_named_in_our_words(
    name: str, content: str, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said) as error:
        open_table(tmp_path / name, given)
    assert "read." not in str(error.value) and "polars" not in str(error.value)
    assert "infer_schema" not in str(error.value)


def test_a_named_separator_and_encoding_are_used(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text;label|more\n好;b|c\n".encode("euc-jp"))
    table = open_table(tmp_path / "a.csv", {"separator": ";", "encoding": "euc-jp"})
    assert table.columns == ["text", "label|more"]
    assert pl.concat(table.chunks()).rows() == [("好", "b|c")]
    with pytest.raises(DataError, match=r"is not UTF-8, and its encoding.*use --encoding NAME"):
        open_table(tmp_path / "a.csv", {"separator": ";"})
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(ParameterError, match=r"--separator does not apply to .*parquet"):
        open_table(tmp_path / "a.parquet", {"separator": ";"})
    with pytest.raises(ParameterError, match=r"a\.csv\.zst is compressed; unpack it"):
        open_table(tmp_path / "a.csv.zst")


def test_the_columns_that_are_named_decide_on_the_separator(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b;text;label\n1,2;good;1\n3,4;bad;0\n")
    assert "separator" not in detect(tmp_path / "a.csv", {})
    assert detect(tmp_path / "a.csv", {"text": "text", "label": "label"})["separator"] == ";"


def test_lines_of_plain_texts_end_with_any_line_end(tmp_path: Path) -> None:
    found = corpus(tmp_path, "a\rb\r\nc\n\r\nd", {"reader": "lines", "file_label": "x"})
    assert found.select("line", "text").rows() == [(1, "a"), (2, "b"), (3, "c"), (4, ""), (5, "d")]


def test_violations_and_unknown_splits_name_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"one\ntwo",pos\n\n"three\nfour",\n')
    about = source({"reader": "csv"}, labels=["pos"])
    with pytest.raises(DataError, match=r"a\.csv:5 label=.* no label"):
        read_rows([tmp_path / "a.csv"], about, ValidateSettings())
    content = 'text,label,part\n"one\ntwo",a,train\nthree,b,tset\n'
    with pytest.raises(DataError, match=r"x\.csv:4 has the unknown split 'tset'"):
        corpus(tmp_path, content, {"reader": "csv", "split": "part"})


def test_a_row_of_separators_is_a_row_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,good\n,\n\n2,bad\n,\n")
    table = open_table(tmp_path / "a.csv")
    assert (table.rows, pl.concat(table.chunks()).rows()) == (4, [("1", "good"), ("", ""), ("2", "bad"), ("", "")])


def test_rows_that_the_parser_loses_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,good\n2,bad\n")
    parse = pl.read_csv
    monkeypatch.setattr(pl, "read_csv", lambda *given, **options: parse(*given, **options)[:1])
    with pytest.raises(DataError, match=r"a\.csv line 2 or a later one is not valid csv"):
        open_table(tmp_path / "a.csv")


def test_one_empty_name_is_a_column_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",text\n0,good\n1,bad\n")
    assert open_table(tmp_path / "a.csv").columns == ["", "text"]


def test_repeated_names_of_other_columns_do_not_matter_to_a_corpus(tmp_path: Path) -> None:
    assert corpus(tmp_path, "text,label,,\ngood,1,,\n,,,\n", {"reader": "csv"})["text"].to_list() == ["good"]
    with pytest.raises(DataError, match=r"two columns named 'text' \(columns 1 and 3\)"):
        corpus(tmp_path, "text,label,text\ngood,1,x\n", {"reader": "csv"})


def test_new_files_have_the_encoding_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text,label\nとても,1\n".encode("cp932"))
    with pytest.raises(DataError, match=r"cp932 \(Japanese\) reads 'とても,1'.*set retrain\.encoding: NAME in params"):
        read_file(tmp_path / "a.csv", source({"reader": "csv"}))
    named = source({"reader": "csv", "encoding": "cp932"})
    assert read_file(tmp_path / "a.csv", named)["text"].to_list() == ["とても"]
