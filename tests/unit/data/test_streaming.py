"""Tests of corpora larger than a batch: results do not depend on the batch size."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from epigram.core.errors import DataError
from epigram.data import chunks, decoding
from epigram.data.corpus import read_corpus
from epigram.data.readers import csv, jsonl
from epigram.data.sources.source import File, Source
from epigram.data.validation import row_index as batches
from epigram.data.validation import row_rules
from epigram.data.validation.row_index import ROWS_PER_STEP, LabelCodes
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import Validated, validate
from epigram.text.dataset.text_matching import loose_text

TEXTS = st.text(st.sampled_from("abA .好，"), max_size=3)
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from("xyz"), st.sampled_from(["train", None])), min_size=25, max_size=60)
DROP = ValidateSettings(on_empty="drop", on_conflict="drop", on_duplicate="drop", dev=0.2, test=0.2)


def judged(rows: list[tuple[Any, ...]], choices: ValidateSettings = DROP) -> Validated | str:
    """Return the validated corpus of `rows`, or the error message."""
    frame = pl.LazyFrame(rows, schema={"text": pl.String, "label": pl.String, "split": pl.String}, orient="row")
    about = {
        "name": "toy",
        "language": "en",
        "task": "single",
        "labels": [],
        "distinct": None,
        "columns_of_text": ["text"],
        "join": " ",
        "sample": None,
        "files": [],
        "label_names": {},
        "hierarchy": "",
        "keep": [],
        "folds": None,
    }
    numbered = frame.with_columns(file=pl.lit("a.tsv"), line=pl.int_range(pl.len()) + 1)
    try:
        return validate(numbered, SimpleNamespace(**about), choices)  # type: ignore[arg-type]
    except DataError as error:
        return str(error)


def same(one: Validated | str, other: Validated | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    parts = (part.collect().equals(other.parts[name].collect()) for name, part in one.parts.items())
    return all(parts) and json.dumps(one.report) == json.dumps(other.report)


@given(ROWS, st.booleans())
@budget(max_examples=12, deadline=None)
def test_the_size_of_a_batch_changes_nothing(rows: list[tuple[Any, ...]], capped: bool) -> None:
    choices = ValidateSettings(on_empty="report", max_train_rows=8) if capped else DROP
    whole = judged(rows, choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", 7)
        assert same(judged(rows, choices), whole)


@given(ROWS)
@budget(max_examples=12, deadline=None)
def test_texts_of_one_hash_are_told_apart(rows: list[tuple[Any, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_rules, "loose_text", loose_text().str.len_bytes)
        collided = judged(rows)
    assert same(collided, judged(rows))


def test_the_parquet_files_hold_the_rows_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH", 7)
    monkeypatch.setattr(batches, "ROW_GROUP", 5)
    result = judged([(f"text {place}", "xy"[place % 2], None) for place in range(60)])
    assert isinstance(result, Validated)
    for name, part in result.parts.items():
        part.write(tmp_path / name)
        written = pl.read_parquet(tmp_path / name)
        assert written.equals(part.collect())
        assert written["row"].is_sorted()
        assert written.height == result.corpus.rows[name]


def test_labels_are_counted_over_many_steps() -> None:
    rows = 2 * ROWS_PER_STEP + 3
    values = LabelCodes(rows)
    values.add(0, pl.repeat("x", rows - 1, eager=True))
    values.add(rows - 1, pl.Series(["y"]))
    assert values.counts(values.codes >= 0) == {"x": rows - 1, "y": 1}
    assert values.first((values.codes == 1).nonzero()[0]).tolist() == [1, 0]


def source(read: dict[str, Any]) -> Source:
    given = {"name": "toy", "about": "", "language": "en", "task": "single", "licence": ""}
    return Source(**given, files=[File(path="x", local="x")], read=read)  # type: ignore[arg-type]


CSV = 'text,label\n"a\nb",1\n\n  c,2\n"say ""d""\n\n",3\ne,\n\nf,4\n' * 5


@pytest.mark.parametrize("size", [3, 8, 20, 1000])
@pytest.mark.parametrize("read", [{"reader": "csv"}, {"reader": "csv", "first": 5}], ids=["all", "first"])
def test_a_csv_is_read_in_pieces(
    size: int, read: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text(CSV, encoding="utf-8")
    whole = read_corpus(source(read), tmp_path)
    monkeypatch.setattr(chunks, "CHUNK_SIZE", size)
    assert read_corpus(source(read), tmp_path).equals(whole)


@pytest.mark.parametrize("size", [3, 20, 1000])
def test_json_lines_are_read_in_pieces(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"text": "a", "label": 1}, {"text": "b", "label": 2.5}, {"label": "x", "text": "c", "late": [1]}]
    (tmp_path / "x").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    whole = read_corpus(source({"reader": "jsonl"}), tmp_path)
    monkeypatch.setattr(chunks, "CHUNK_SIZE", size)
    assert read_corpus(source({"reader": "jsonl"}), tmp_path).equals(whole)


def test_a_long_row_in_a_late_piece_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("text,label\n" + "a,1\n" * 50 + "a,1,2\n", encoding="utf-8")
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 40)
    with pytest.raises(DataError, match="line 52 has 3 values for 2 columns"):
        read_corpus(source({"reader": "csv"}), tmp_path)


@pytest.mark.parametrize(("kind", "text"), [("csv", 'text,label\n"open,'), ("jsonl", '{"text": "')])
def test_a_row_that_never_ends_is_refused_before_it_is_read_whole(
    kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 100)
    monkeypatch.setattr(chunks, "MAX_ROW_SIZE", 1_000)
    path = tmp_path / f"a.{kind}"
    path.write_text(text + "a b\n" * 1_000 if kind == "csv" else text + "a" * 4_000)
    reader = csv.Csv() if kind == "csv" else jsonl.JsonLines()
    with pytest.raises(DataError, match=rf"a\.{kind} has a row of more than 0 MB"):
        list(reader.tables(path))


def test_a_csv_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{n}" for n in range(10_001)) + "\n")
    with pytest.raises(DataError, match=r"a\.csv has more than 10,000 columns"):
        list(csv.Csv().tables(tmp_path / "a.csv"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "gbk"])
def test_a_file_of_nothing_but_zeros_is_refused_at_its_start(encoding: str, tmp_path: Path) -> None:
    """The sparse file takes no disk space, but reading it whole would take 64 GB of memory."""
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\n好,b\n".encode(encoding))
    with path.open("r+b") as file:
        file.truncate(1 << 36)
    with pytest.raises(DataError, match=r"a\.csv has a NUL byte in line 3"):
        decoding.to_utf8(path, encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "gbk", "gb18030", "big5", "latin-1"])
@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_a_file_that_is_encoded_anew_a_block_at_a_time_is_the_whole_text(
    encoding: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "BLOCK_SIZE", block)
    text = "text,label\r\nune fenêtre,b\n" if encoding == "latin-1" else "text,label\r\n很好,b\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""  # this codec keeps the byte order mark
    (tmp_path / "a.csv").write_bytes((mark + text).encode(encoding))
    source = decoding.to_utf8(tmp_path / "a.csv", encoding)
    assert isinstance(source, io.BytesIO)
    assert source.read().decode() == text  # the stream is at its start


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_nul_byte_in_a_late_block_is_named_by_its_line(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "BLOCK_SIZE", 8)
    (tmp_path / "a.csv").write_bytes("一二\n三四\n五六\n七八\n九\0\n".encode(encoding))
    with pytest.raises(DataError, match=r"a\.csv has a NUL byte in line 5; the file is damaged"):
        decoding.to_utf8(tmp_path / "a.csv", encoding)
