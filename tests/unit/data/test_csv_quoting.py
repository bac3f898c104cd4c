"""Tests of quotation marks that are plain characters: no rows are merged, and quoted texts keep their line breaks."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.data import chunks
from epigram.data.readers.csv import Csv, has_plain_quotes
from epigram.data.tables import reader_of

SENTENCE = 'id\ttext\n1\t"I never thought I would like it.\n2\tBut I did."\n3\tmeh\n'  # one sentence in two rows


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "x.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (SENTENCE, True),
        (SENTENCE.replace("\n", "\r\n"), True),
        (SENTENCE.replace("\n", "\n\n"), True),  # blank lines are no rows
        (SENTENCE.replace("\n", "\r\n\r\n"), True),
        (SENTENCE.removesuffix("\n") + '"', True),
        (SENTENCE.replace("3\tmeh", "3\tmeh\tmeh"), False),
        (SENTENCE.replace("3\tmeh", "3"), False),
        ('id\ttext\n1\t"one\ntwo"\n2\tmeh\n', False),  # a quoted text of two lines
        ('text\tid\n"one\ntwo"\t1\n', False),
        ('id\ttext\n1\t"one\ttwo\nthree"\n2\tmeh\n', False),
        ('id\ttext\n1\t"fine"\n2\tsay ""it""\n', False),  # no value spans lines, whatever the marks mean
        ('text\n"one\ntwo"\n', False),
        ("id\ttext\n1\tfine\n", False),
        ("\n\n", False),
        ("", False),
    ],
)
def test_marks_are_plain_if_each_line_is_a_row_and_one_has_an_odd_number(
    content: str, plain: bool, tmp_path: Path
) -> None:
    assert has_plain_quotes(write(tmp_path, content)) is plain


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gbk", "big5", "utf-16"])
def test_marks_are_counted_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    chinese = SENTENCE.replace("meh", "一般")
    assert has_plain_quotes(write(tmp_path, chinese.encode(encoding)), encoding)


def test_marks_are_counted_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 16)
    assert has_plain_quotes(write(tmp_path, SENTENCE + "4\tsome more\n" * 9))
    assert not has_plain_quotes(write(tmp_path, SENTENCE + "4\tsome more\n" * 9 + "5\n"))
    wider = '1\t"abcd\n' * 2 + "1\ta\tabc\n" * 4  # lines and chunks of 8 and 16 bytes
    assert not has_plain_quotes(write(tmp_path, "id\ttext\n" + wider))


def read(path: Path, **options: str | None) -> tuple[dict[str, str | None], list[str]]:
    chosen = Csv.detect(path, {"reader": "csv", "label": None, **options})
    return chosen, pl.concat(reader_of(chosen).read(path))["text"].to_list()


def test_a_tsv_is_read_by_its_lines_only_if_they_are_rows(tmp_path: Path) -> None:
    chosen, texts = read(write(tmp_path, SENTENCE), separator="\t")
    assert texts == ['"I never thought I would like it.', 'But I did."', "meh"] and chosen["quote"] is None
    chosen, texts = read(write(tmp_path, 'id\ttext\n1\t"one\ntwo"\n2\tmeh\n'), separator="\t")
    assert texts == ["one\ntwo", "meh"] and "quote" not in chosen


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_csv_whose_marks_are_plain_in_other_files_may_quote_texts(separator: str, tmp_path: Path) -> None:
    quoted = write(tmp_path, f'text{separator}id\n"so{separator} so"{separator}1\n"fine"{separator}2\n')
    chosen, texts = read(quoted, separator=separator, quote=None)
    assert (texts, chosen["quote"]) == ([f"so{separator} so", "fine"], '"')
    plain = write(tmp_path, f'text{separator}id\n"fine"{separator}2\n')
    assert read(plain, separator=separator, quote=None)[1] == ['"fine"']
    broken = write(tmp_path, f'text{separator}id\n"fine"{separator}2\nso{separator} so{separator}1\n')
    with pytest.raises(DataError, match=r"line 3 has 3 values for 2 columns.*\nquotation marks are plain characters"):
        read(broken, separator=separator, quote=None)


def test_a_tsv_whose_marks_are_plain_in_other_files_is_not_read_as_quoted(tmp_path: Path) -> None:
    broken = write(tmp_path, 'id\ttext\n1\t"I never\tthought\n2\tBut I did."\n')
    with pytest.raises(DataError, match="line 2 has 3 values for 2 columns"):
        read(broken, separator="\t", quote=None)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_csv_that_quotes_some_values_is_not_read_with_plain_marks(separator: str, tmp_path: Path) -> None:
    both = write(tmp_path, f'text{separator}id\n"fine"{separator}2\n5" long{separator}1\n')
    with pytest.raises(DataError, match=r"x\.tsv"):
        read(both, separator=separator)
