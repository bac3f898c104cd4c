"""A reader returns exactly the content of a file, for arbitrary texts."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epigram.core.errors import DataError, EpigramError
from epigram.data.corpus import label_tokens
from epigram.data.readers import KINDS
from epigram.data.sources.source import ADDRESS_PREFIXES
from epigram.text.guessing import detect_encoding
from epigram.text.unlabelled import read_lines
from tests.support.budget import cases, texts

PLAIN = texts.map(lambda text: text.replace("\0", ""))
ROWS = st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=6)
WORD = PLAIN.map(lambda text: "".join(text.split()).replace("\ufeff", "")).filter(bool)
SENTENCES = st.lists(
    st.lists(st.tuples(WORD, st.sampled_from(["O", "B-X", "I-Y"])), min_size=1, max_size=4), min_size=1, max_size=4
)
BYTES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\xff", b"\xef\xbb\xbf", "好".encode(), b" ", b"a", b"\xe5"]), max_size=9
)


def read(folder: Path, name: str, content: bytes | str, **options: Any) -> pl.DataFrame:
    path = folder / "x"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return pl.concat(KINDS[name](**options).read(path))


@pytest.mark.parametrize("separator", [",", "\t"])
@cases(300)
@given(rows=ROWS)
def test_a_table_is_read_as_it_was_written(tmp_path: Path, separator: str, rows: list[tuple[str, str]]) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [("text", "label"), *rows]
    )
    found = read(tmp_path, "csv", written.getvalue(), separator=separator)
    assert found.select("text", "label").rows() == [row for row in rows if any(row)]


@cases(400)
@given(ROWS, st.booleans())
def test_json_lines_are_read_as_they_were_written(
    tmp_path: Path, rows: list[tuple[str, str]], ascii_only: bool
) -> None:
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii_only) for text, label in rows]
    found = read(tmp_path, "jsonl", "\n".join(lines))
    assert found.rows() == [(place, *row) for place, row in enumerate(rows, start=1)]


@cases(200)
@given(ROWS)
def test_a_parquet_file_is_read_as_it_was_written(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    packed = io.BytesIO()
    pl.DataFrame(rows, schema=["text", "label"], orient="row").write_parquet(packed)
    assert read(tmp_path, "parquet", packed.getvalue()).select("text", "label").rows() == rows


@cases(300)
@given(SENTENCES)
def test_columns_of_words_are_read_as_they_were_written(tmp_path: Path, sentences: list[list[tuple[str, str]]]) -> None:
    content = "\n\n".join("\n".join(f"{word}\t{label}" for word, label in words) for words in sentences)
    found = read(tmp_path, "conll", content, join="")
    assert found["tokens"].to_list() == [[word for word, _ in words] for words in sentences]
    assert found["token_labels"].to_list() == [[label for _, label in words] for words in sentences]
    assert found["text"].to_list() == ["".join(word for word, _ in words) for words in sentences]


@cases(300)
@given(SENTENCES, st.integers(-2, 5), st.integers(-2, 5))
def test_an_edit_marks_words_or_is_refused(
    tmp_path: Path, sentences: list[list[tuple[str, str]]], start: int, end: int
) -> None:
    content = "".join(
        f"S {' '.join(word for word, _ in words)}\nA {start} {end}|||R:X|||y|||R|||N|||0\n\n" for words in sentences
    )
    try:
        found = read(tmp_path, "m2", content)
    except DataError as error:
        assert "/x line " in str(error)
    else:
        for words, labels in zip(sentences, found["token_labels"].to_list(), strict=True):
            assert len(labels) == len(words)
            assert labels.count("i") >= 1


@cases(400)
@given(
    st.lists(
        st.tuples(PLAIN, st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9)), max_size=2)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["zh", "en"]),
)
def test_marked_pieces_label_the_tokens_that_they_overlap(
    rows: list[tuple[str, list[tuple[int, int]]]], language: Any
) -> None:
    objects = [{"line": 1, "text": text, "label": "X", "spans": [list(span) for span in spans]} for text, spans in rows]
    frame = pl.DataFrame(
        objects, schema={"line": pl.Int64, "text": pl.String, "label": pl.String, "spans": pl.List(pl.List(pl.Int64))}
    )
    try:
        found = label_tokens(frame, language, "x")
    except DataError as error:
        assert str(error).startswith("x:1: span ")
        assert str(error).isprintable()
    else:
        for (text, spans), tokens, labels in zip(rows, found["tokens"], found["token_labels"], strict=True):
            assert len(tokens) == len(labels)
            assert "".join("".join(tokens).split()) == "".join(text.split()) or language == "en"
            assert ("X" in labels.to_list()) >= any(text[start:end].strip("\x85").isalnum() for start, end in spans)


@pytest.mark.parametrize("name", ["csv", "jsonl", "lines", "trees", "conll", "m2"])
@cases(250)
@given(data=BYTES.map(b"".join))
def test_bytes_are_texts_or_refused_by_file(tmp_path: Path, name: str, data: bytes) -> None:
    head = {"csv": b"text,label\n", "jsonl": b'{"text": "a", "label": "b"}\n'}.get(name, b"")
    try:
        found = read(tmp_path, name, head + data)
    except EpigramError as error:
        assert "/x" in str(error).partition("\n")[0]
        assert str(error).partition("\n")[0].isprintable()
    else:
        found.select("text").to_series().to_list()


@cases(500)
@given(BYTES.map(b"".join))
def test_further_texts_are_lines_or_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "more.txt"
    path.write_bytes(data)
    try:
        found = list(read_lines(path))
    except DataError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)
    else:
        text = data.decode(detect_encoding(data.splitlines(keepends=True), "x")).removeprefix("\ufeff")
        assert found == [line.strip() for line in re.split("\r*\n|\r", text) if line.strip()]


def test_what_is_fetched_is_named_by_its_scheme() -> None:
    assert {address.partition(":")[0] for address in ADDRESS_PREFIXES} == {
        "https",
        "http",
        "hf",
        "sqlite",
        "postgresql",
        "postgres",
        "${",
    }
