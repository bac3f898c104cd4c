"""Tests of `epigram predict` on texts and of `epigram export`: thresholds, notes on stderr and printed output."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from epigram.cli import app as cli
from epigram.core.errors import DataError, ParameterError
from epigram.inference.predictors.predictor import Predictor
from epigram.text import lines
from tests.support.linear_models import LABELS, SEVERAL, svm


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def command(*arguments: object) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", *map(str, arguments)])
        cli.app()

    return command


@pytest.mark.parametrize("named", [[], [0], [1], [0, 2], [0, 1, 2]])
def test_a_text_has_the_labels_above_their_own_thresholds(named: list[int], tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    [p] = predictor.probabilities(["soup"])
    predictor.saved.thresholds[:] = [float(p[c]) - 0.01 if c in named else float(p[c]) + 0.01 for c in range(3)]
    [answer] = predictor.predict(["soup"])
    assert answer.labels == [LABELS[c] for c in named]


def test_probabilities_of_no_text_are_an_empty_table_of_single_precision(model: Path) -> None:
    found = Predictor(model).probabilities([])
    assert (found.shape, found.dtype) == ((0, 3), np.float32)


def test_texts_of_nothing_but_white_space_count_as_empty(
    model: Path, run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run("predict", model, "soup", "", " \t", "\u3000", "large room")
    said = capsys.readouterr()
    assert [line.split("\t")[0] for line in said.out.splitlines()][::4] == ["food", "room"]
    assert said.err == "note: 3 texts are empty\n"


@pytest.mark.parametrize("options", [[], ["--int8"]])
def test_the_export_command_asks_for_the_precision_that_the_user_asks_for(
    options: list[str], run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, Path, bool]] = []

    def write(model: Path, out: Path, *, int8: bool = False) -> None:
        asked.append((model, out, int8))
        out.mkdir()

    monkeypatch.setattr("epigram.inference.onnx.export.export", write)
    run("export", tmp_path / "model", tmp_path / "out", *options)
    assert asked == [(tmp_path / "model", tmp_path / "out", bool(options))]


def test_control_characters_of_a_text_are_not_printed_and_json_keeps_them(
    model: Path, run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    text = "large\x1b]0;owned\x07 \x9b31mroom\x7f"
    run("predict", model, text)
    assert capsys.readouterr().out.split("\t")[2] == "large room\n"
    run("predict", "--json", model, text)
    out = capsys.readouterr().out
    assert json.loads(out)["text"] == text
    assert not {"\x1b", "\x07", "\x9b", "\x7f"} & set(out)


def test_a_line_without_end_is_refused_before_it_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    assert list(lines.read_lines(io.BytesIO(b"123456789\n1234567890"), "x line")) == [b"123456789\n", b"1234567890"]
    file = io.BytesIO(b"short\n" + b"a" * 100)
    with pytest.raises(DataError, match="x line 2 is longer than 0 MB; write one text per line"):
        list(lines.read_lines(file, "x line"))
    assert file.tell() == 17


@pytest.mark.parametrize("option", [["--text", "text"], ["--force"]])
def test_an_option_for_tables_without_a_table_to_write_is_refused(
    option: list[str], model: Path, run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("predict", model, "soup", *option)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (ParameterError.code, "")
    assert f"{option[0]} needs a table and --out" in said.err
