"""The registry of readers: names as in YAML, a reader of one's own, and which sources label tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from epigram.core.errors import ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.incoming_rows import read_file
from epigram.data.readers import KINDS, Reader, labels_tokens, register
from epigram.data.sources.add import add_source
from epigram.data.sources.source import File, Source, read_source
from epigram.data.tables import Options, TableReader, open_table

SOURCE = Source(
    name="toy", about="", language="en", task="single", licence="none", files=[File(path="a.txt", local="x")]
)


def test_a_source_names_a_reader_as_its_file_is_named() -> None:
    assert list(KINDS) == [
        "conll", "csv", "json_files", "json_lists", "jsonl", "lines", "m2", "parquet", "posts", "reuters", "trees",
    ]  # fmt: skip
    assert all(issubclass(KINDS[name], Reader) for name in KINDS)


def test_a_new_reader_needs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS, "_parts", dict(KINDS._parts))

    @register("reversed")
    @dataclass(frozen=True, kw_only=True)
    class Reversed(Reader):
        """Reader for a file whose text is written backwards."""

        label: str

        def read(self, path: Path) -> Iterator[pl.DataFrame]:
            yield pl.DataFrame({"line": [1], "text": [path.read_text()[::-1]], "label": [self.label]})

    (tmp_path / "a.txt").write_text("doog")
    source = replace(SOURCE, read={"reader": "reversed", "label": "pos"})
    assert read_corpus(source, tmp_path).select("text", "label").rows() == [("good", "pos")]
    with pytest.raises(ParameterError, match="unknown reader 'revers'; did you mean 'reversed'"):
        read_corpus(replace(SOURCE, read={"reader": "revers"}), tmp_path)


@pytest.mark.parametrize(
    ("read", "file", "labelled"),
    [
        ({"reader": "conll"}, {}, True),
        ({"reader": "m2", "sentence": None}, {}, True),
        ({"reader": "none"}, {"reader": "conll"}, True),
        ({"reader": "csv"}, {}, False),
        ({"reader": "csv", "spans": "marked"}, {}, True),
        ({"reader": "trees"}, {"token_names": {"0": "NEG"}}, True),
        ({"reader": "trees"}, {}, False),
        ({"reader": "unheard_of"}, {}, False),
        ({}, {}, False),
    ],
)
def test_token_labels_come_from_the_format_or_from_an_option(
    read: dict[str, Any], file: dict[str, Any], *, labelled: bool
) -> None:
    files = [File(path="b", local="y"), File(path="a", local="x", read=file)]
    assert labels_tokens(replace(SOURCE, read=read, files=files)) == labelled


def test_a_new_format_serves_the_pipeline_add_the_inbox_and_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KINDS, "_parts", dict(KINDS._parts))

    @register("pairs")
    @dataclass(frozen=True, kw_only=True)
    class Pairs(TableReader):
        """Reader for lines LABEL=TEXT."""

        suffixes: ClassVar[dict[str, Options]] = {".pairs": {}}

        def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
            rows = [line.split("=") for line in path.read_text().splitlines()]
            frame = pl.DataFrame(rows, schema=["label", "text"], orient="row")
            yield pl.int_range(1, frame.height + 1, eager=True), frame

    file, rows = tmp_path / "a.pairs", [("good", "pos"), ("bad", "neg")]
    file.write_text("pos=good\nneg=bad\n")
    added = read_source(add_source(file, name="mine", text="text", label="label", root=tmp_path))
    assert read_corpus(added, tmp_path / "data/local").select("text", "label").rows() == rows
    found = read_file(file, replace(SOURCE, read={"reader": "csv"}))
    assert found.select("text", "label", "line").rows() == [(*row, line) for line, row in enumerate(rows, 1)]
    table = open_table(file)
    assert (table.columns, table.rows, pl.concat(table.chunks()).rows()) == (
        ["label", "text"],
        2,
        [row[::-1] for row in rows],
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_blank_line_is_no_row_in_any_use(suffix: str, tmp_path: Path) -> None:
    mark = "\t" if suffix == "tsv" else ","
    file = tmp_path / f"a.{suffix}"
    file.write_text("id,text,label\n1,good,pos\n\n2,,neg\n\n".replace(",", mark))
    table = open_table(file)
    assert (table.rows, pl.concat(table.chunks()).rows()) == (2, [("1", "good", "pos"), ("2", "", "neg")])
    found = read_file(file, replace(SOURCE, read={"reader": "csv"}))
    assert found.select("text", "label", "line").rows() == [("good", "pos", 2), ("", "neg", 4)]
