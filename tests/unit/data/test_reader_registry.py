"""The registry of readers: names as in YAML, a reader of one's own, and which sources label tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.core.errors import ParameterError
from epigram.data.readers import KINDS, Reader, labels_tokens, register
from epigram.data.reading.corpus import read_corpus
from epigram.data.sources.source import File, Source

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
