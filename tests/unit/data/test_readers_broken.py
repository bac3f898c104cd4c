"""Fuzz tests of readers: for any bytes, a reader returns rows or raises an epigram error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epigram.core.errors import EpigramError
from epigram.data.corpus import read_corpus
from epigram.data.readers import KINDS
from epigram.data.sources.source import File, Source

OPTIONS: dict[str, dict[str, Any]] = {
    "json_files": {"lists": {"a": "x"}},
    "lines": {"file_label": "a"},
    "m2": {"sentence": {"default": "c", "plain": "right", "marked": "wrong"}},
    "conll": {"sentence": {"default": "O", "plain": "none", "marked": "some"}},
}
SEEDS = [
    b"text,label\n",
    b'"text","label"\n"a","b"\n',
    b'{"text": "a", "label": ["b"]}\n',
    b'{"text": ["a"], "label": ["b"], "spans": [[0, 1]]}\n',
    b"word\tO\n\nword\tB\n",
    b"S a b\nA 0 1|||R:X|||c|||REQUIRED|||-NONE-|||0\n",
    b"(3 (2 good) (2 film))\n",
    b"PAR1",
    "好看\n".encode(),
    "很好看".encode("gbk"),
]
PIECES = st.lists(st.one_of(st.sampled_from(SEEDS), st.binary(max_size=40), st.text(max_size=20).map(str.encode)))


def answer(folder: Path, data: bytes, name: str, task: str, extra: dict[str, Any]) -> None:
    (folder / "x").write_bytes(data)
    given: Any = {"name": "toy", "about": "", "language": "en", "licence": "", "task": task}
    files = [File(path="x", local="x")]
    try:
        frame = read_corpus(Source(files=files, read={"reader": name} | OPTIONS.get(name, {}) | extra, **given), folder)
    except EpigramError as error:
        assert str(error).strip()
    else:
        assert "text" in frame.columns


@pytest.mark.parametrize("name", sorted(KINDS))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, task=st.sampled_from(["single", "multi", "tokens"]))
def test_random_bytes(tmp_path: Path, name: str, pieces: list[bytes], task: str) -> None:
    answer(tmp_path, b"".join(pieces), name, task, {})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=PIECES,
    encoding=st.sampled_from(["utf-8", "gbk", "utf-16", "latin-1", "cp1252", "utf-7", "big5"]),
    quote=st.sampled_from(['"', None]),
)
def test_random_bytes_in_any_encoding(tmp_path: Path, pieces: list[bytes], encoding: str, quote: str | None) -> None:
    data = b"text,label\n" + b"".join(pieces)
    answer(tmp_path, data, "csv", "single", {"encoding": encoding, "quote": quote})
    answer(tmp_path, b"".join(pieces), "jsonl", "single", {"encoding": encoding, "spans": "text"})
