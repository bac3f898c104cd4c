"""Tests of encodings of user files: named, guessed or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epigram.core.errors import DataError, ParameterError
from tests.support.sources import CSV, corpus


def test_the_wrong_byte_is_found_far_down(tmp_path: Path) -> None:
    lines = "text,label\n" + "一句话,1\n" * 800_000
    place = len(lines.encode())
    with pytest.raises(DataError, match=f"at byte {place};"):
        corpus(tmp_path, lines.encode() + b"\xff\n", {"reader": "csv"})


def test_other_encodings_are_read_when_named(tmp_path: Path) -> None:
    for encoding in ("gbk", "gb18030", "utf-16", "utf-8-sig"):
        frame = corpus(tmp_path, CSV.encode(encoding), {"reader": "csv", "encoding": encoding})
        assert frame["text"].to_list() == ["good film", "好看", "so so"]
    assert corpus(tmp_path, CSV.encode("utf-8-sig"), {"reader": "csv"}).height == 3
    with pytest.raises(DataError, match=r"is not GBK at byte .*; the encoding is probably utf-8"):
        corpus(tmp_path, "text,label\n好看吗,1\n", {"reader": "csv", "encoding": "gbk"})
    with pytest.raises(ParameterError, match=r"read\.encoding is 'gbkk'"):
        corpus(tmp_path, CSV, {"reader": "csv", "encoding": "gbkk"})


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "gbk", "big5"])
def test_an_encoding_is_told_by_the_bytes_that_need_it(tmp_path: Path, encoding: str) -> None:
    said = {"cp1252": "“café”", "latin-1": "café", "gbk": "很好，下次还来", "big5": "這間酒店的環境和服務態度都很好"}
    content = "text,label\n" + "a plain line,1\n" * 90_000 + f"{said[encoding]},1\n"
    with pytest.raises(DataError, match=rf"is not UTF-8 at byte 13500\d\d; the encoding is probably {encoding}: set"):
        corpus(tmp_path, content.encode(encoding), {"reader": "csv"})


def test_one_damaged_byte_makes_no_other_encoding(tmp_path: Path) -> None:
    for lines in (10, 100_000):
        content = "text,label\n" + "很好，下次还来,1\n" * lines
        with pytest.raises(DataError, match=r"is not UTF-8 at byte \d+; the file is damaged"):
            corpus(tmp_path, content.encode() + b"\xff,1\n", {"reader": "csv"})


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    rows = "\ufeff" + json.dumps({"text": "a", "label": "x"}) + "\n"
    assert corpus(tmp_path, rows, {"reader": "jsonl"})["text"].to_list() == ["a"]
    assert corpus(tmp_path, "\ufeffa\nb\n", {"reader": "lines", "file_label": "x"})["text"].to_list() == ["a", "b"]
    words = corpus(tmp_path, "\ufeffa\tO\n", {"reader": "conll"}, task="tokens")
    assert words["tokens"].to_list() == [["a"]]
    for reader in ("csv", "jsonl"):
        with pytest.raises(DataError, match=r"x\.csv is empty"):
            corpus(tmp_path, "\ufeff", {"reader": reader})


@pytest.mark.parametrize("half", [r"\ud83d", r"\uD83Dx", r"\ude00", r"\ud83d\u4e2d", r"\ud83d\ud83d\ude00"])
def test_half_a_character_is_named_by_its_line(tmp_path: Path, half: str) -> None:
    sound = r'{"text": "\ud83d\ude00 \u4e2d \\ud83d", "label": "x"}' + "\n"
    assert corpus(tmp_path, sound, {"reader": "jsonl"})["text"].to_list() == [r"😀 中 \ud83d"]
    with pytest.raises(DataError, match=r"x\.csv line 3 has an unpaired surrogate"):
        corpus(tmp_path, 2 * sound + f'{{"text": "a{half}", "label": "x"}}\n' + sound, {"reader": "jsonl"})
