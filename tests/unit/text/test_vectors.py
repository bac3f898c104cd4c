"""Tests of pretrained vectors: every file format, alignment by token, and one-line errors for invalid files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import load_source
from epigram.text.settings import ViewSettings
from epigram.text.tokens.characters import by_frequency, count_characters
from epigram.text.vectors.vector_files import open_vectors
from epigram.text.vectors.vectors import coverage, read_vectors, vectors_file
from tests.support.text_samples import ZH, encoded_in

ROOT = Path(__file__).parents[3]
WORDS = ["the", "Good", "好", "a\xa0b", "never"]
TABLE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, 0.5, 1e-3], [0, 0, 0]], dtype=np.float32)
VOCABULARY = ["[PAD]", "好", "The", "good", "a\xa0b", "missing"]
LINES = [" ".join([word, *(f"{value:g}" for value in row)]) for word, row in zip(WORDS, TABLE, strict=True)]


def text(path: Path) -> None:
    path.write_text("\n".join(LINES), encoding="utf-8")


def headed_text(path: Path) -> None:
    path.write_text("\n".join(["5 3", *(f"{line} " for line in LINES), ""]), encoding="utf-8")


def tabbed_text(path: Path) -> None:
    path.write_text("\r\n".join(line.replace(" ", "\t", 1) for line in LINES), encoding="utf-8")


def spread_text(path: Path) -> None:
    path.write_text("\n".join(line.replace(" ", "  ") for line in LINES), encoding="utf-8")


def two_arrays(path: Path) -> None:
    np.savez(path, words=np.array(WORDS), vectors=TABLE.astype(np.float64))


def array_beside_rows(path: Path) -> None:
    np.savez_compressed(path, TABLE)
    (path.parent / "rows.json").write_text(json.dumps(WORDS))


FORMS = [
    (".txt", text), (".vec", headed_text), (".txt", tabbed_text), (".vec", spread_text), (".npz", two_arrays),
    (".npz", array_beside_rows),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "write"), FORMS, ids=[write.__name__ for _, write in FORMS])
def test_every_form_gives_the_same_vectors(suffix: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / f"file{suffix}"
    write(path)
    found = read_vectors(path, VOCABULARY)
    assert (found.shape, found.dtype) == ((6, 3), np.float32)
    expected = np.stack([np.full(3, np.nan), TABLE[2], TABLE[0], TABLE[1], TABLE[3], np.full(3, np.nan)])
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_the_very_same_word_wins_over_another_case_and_the_first_over_the_next(tmp_path: Path) -> None:
    path = tmp_path / "x.vec"
    path.write_text("APPLE 1\nApple 2\napple 3\napple 4\nUs 5\nUS 6\n")
    assert read_vectors(path, ["apple", "Apple", "us", "aPPLE"])[:, 0].tolist() == [3, 2, 5, 1]


def test_words_with_blanks_are_passed_over_and_a_blank_is_a_word(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("好 1 2\n. . . 3 4\nat name@x.org 5 6\n  7 8\n. 9 9\n", encoding="utf-8")
    assert read_vectors(path, ["好", " ", "at", "."]).tolist()[:2] == [[1, 2], [7, 8]]
    assert read_vectors(path, ["好", ".", "at"])[1:, 0].tolist() == [9, pytest.approx(np.nan, nan_ok=True)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "contains no vectors"),
        ("word\n", "contains no vectors"),
        ("a 1 2\nb 1 2\n\nc 1\n", r"x\.vec line 4 has 1 numbers; expected 2, as in the first line"),
        ("a 1 2\nb 1 2 3\n", r"line 2 has 3 numbers; expected 2"),
        ("2 3\na 1 2\n", r"line 2 has 2 numbers; expected 3"),
        ("a 1 two\n", r"x\.vec line 1: could not convert string to float"),
        ("a 1 nan\n", "the vector of 'a' contains NaN or infinite numbers"),
        (
            "b 1 2\nc 1 2\n",
            r"no vector for any of the 2 entries of the vocabulary, such as 'a', 'z'.*tokens of the view.*UTF-8",
        ),
    ],
)
def test_a_wrong_text_file_gets_one_clear_line(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_text(content)
    with pytest.raises(DataError, match=words) as said:
        read_vectors(tmp_path / "x.vec", ["a", "z"])
    assert "\n" not in str(said.value)


def test_a_wrong_table_gets_one_clear_line(tmp_path: Path) -> None:
    bundle = tmp_path / "x.npz"

    def refused(words: str) -> None:
        with pytest.raises(DataError, match=words):
            read_vectors(bundle, ["a"])

    bundle.write_bytes(b"nothing of the kind")
    refused(r"x\.npz is not a valid \.npz")
    np.savez(bundle, words=np.array(["a"], dtype=object), vectors=TABLE)
    refused("of plain arrays")
    np.savez(bundle, TABLE)
    refused(r"has no list of the words of its rows: put one next to it, named x\.json or rows\.json")
    np.savez(bundle, words=np.array(["a"]), vectors=TABLE)
    refused(r"contains float32 \(5, 3\) for 1 words")
    np.savez(bundle, TABLE, TABLE)
    refused("one array of vectors")
    np.savez(bundle, TABLE)
    (tmp_path / "rows.json").write_text('{"the": 1}')
    refused(r"rows\.json does not contain a list of words")
    bundle.write_bytes(bundle.read_bytes()[:-30])
    refused(r"is not a valid \.npz")


def test_a_path_that_cannot_be_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/local").mkdir(parents=True)
    (tmp_path / "x.vec").write_text("a 1\n")
    for outside in ("x.vec", "data/local/../../x.vec", str(tmp_path / "x.vec")):
        with pytest.raises(
            ParameterError,
            match=r"views\.v\.vectors is .*; expected a file in data/local: put it there and set .* to data/lo",
        ):
            vectors_file(outside, "v")
    with pytest.raises(ParameterError, match=r"x\.bin'?; expected a file that ends in \.npz, \.txt, \.vec"):
        vectors_file("data/local/x.bin", "v")
    with pytest.raises(InputMissingError, match=r"data/local/x\.vec'?, which does not exist"):
        vectors_file("data/local/x.vec", "v")
    (tmp_path / "data/local/x.vec").symlink_to(tmp_path / "x.vec")
    assert vectors_file("./data/local/x.vec", "v").is_file()


def test_a_view_carries_its_vectors(
    tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data/local/x.vec"
    path.parent.mkdir(parents=True)
    path.write_text("好 1 2\n吃 3 4\n了 5 6\n", encoding="utf-8")
    settings = ViewSettings(vectors="data/local/x.vec")
    view = encoded_in(tmp_path, pos, ZH, view=settings)
    train = "".join(row[0] for row in ZH["train"])
    share = sum(train.count(word) for word in "好吃了") / len(train)
    told = {"file": "x.vec", "width": 2, "found": 3, "of": view.vocabulary, "tokens": pytest.approx(share)}
    assert view.vectors == told
    assert (~np.isnan(view.vectors_array()).any(1)).sum() == 3
    assert (
        f"v: x.vec has vectors for 3 of {view.vocabulary} entries, {share:.2%} of the training tokens"
        in capsys.readouterr().out
    )
    before = view.fingerprint
    path.write_text("好 1 2\n吃 3 4\n了 5 7\n", encoding="utf-8")
    assert encoded_in(tmp_path, pos, ZH, view=settings).fingerprint != before
    path.write_text("nothing 1 2\n", encoding="utf-8")
    with pytest.raises(DataError, match="no vector for any"):
        encoded_in(tmp_path, pos, ZH, view=settings)


@pytest.mark.mirror
def test_the_vectors_of_the_mirror_cover_the_characters_of_thucnews(tmp_path: Path) -> None:
    if not os.environ.get("EPIGRAM_MIRROR"):
        pytest.skip("requires the data sets: set EPIGRAM_MIRROR to their folder")
    fetcher = Fetcher(tmp_path / "arrivals", DownloadSettings())
    sources: list[Any] = [load_source(name, ROOT / "data/sources") for name in ("embeddings", "thucnews_116k")]
    for source in sources:
        for file in source.files:
            fetcher.fetch(file, tmp_path / source.name)
    texts = read_corpus(sources[1], tmp_path / "thucnews_116k").filter(split="train")["text"].to_list()
    vocabulary = by_frequency(count_characters([texts]), 1)
    found = coverage(
        read_vectors(tmp_path / "embeddings/embedding_Tencent.npz", vocabulary), np.arange(len(vocabulary))
    )
    assert (found["width"], found["of"] - found["found"]) == (200, 0)


def test_a_line_without_end_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    """The sparse file takes no disk space, but reading it as one line would take 64 GB of memory."""
    path = tmp_path / "x.vec"
    path.write_bytes(b"a 1 2\n")
    with path.open("r+b") as file:
        file.truncate(1 << 36)
    width, rows = open_vectors(path)
    assert (width, next(rows)[0]) == (2, "a")
    with pytest.raises(DataError, match=r"x\.vec line 2 is longer than 4 MB"):
        next(rows)
