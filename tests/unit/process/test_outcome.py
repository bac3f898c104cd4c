"""Tests of the outcome file of a stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from epigram.core.errors import DataError
from epigram.process.exits import handle_errors
from epigram.process.outcome import OUTCOME_FILE, Outcome, read_outcome


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(OUTCOME_FILE, str(tmp_path / "outcome.json"))
    monkeypatch.setenv("DVC_STAGE", "train@mlp")
    return tmp_path / "outcome.json"


def fail() -> None:
    raise DataError("2 rows have no \x1b[31mtext\nrow 3\nrow 7")


def test_a_failed_program_writes_its_outcome(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()
    expected = Outcome(
        stage="train@mlp", code=65, summary="2 rows have no text", details=("row 3", "row 7"), state="Failed"
    )
    assert read_outcome(file) == expected
    assert capsys.readouterr().err == "error: 2 rows have no text\nrow 3\nrow 7\n"
    assert list(file.parent.iterdir()) == [file]


def test_without_the_variable_only_the_line_is_printed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(OUTCOME_FILE)
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()
    assert capsys.readouterr().err.startswith("error: 2 rows have no text\n")
    assert list(file.parent.iterdir()) == []


def test_an_outcome_that_cannot_be_written_changes_no_exit_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OUTCOME_FILE, str(file / "in" / "no" / "folder"))
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()


def test_30_details_are_kept_and_the_others_counted() -> None:
    lines = [f"row {number}" for number in range(33)]
    assert Outcome.failed("fit", 65, "\n".join(["wrong", *lines[:30]])).details == tuple(lines[:30])
    assert Outcome.failed("fit", 65, "\n".join(["wrong", *lines])).details == (*lines[:30], "… and 3 more lines")


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"stage": "fit", "code": "many"}', b'{"code": 65}', b"\xff"])
def test_a_missing_or_damaged_file_is_no_outcome(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    assert read_outcome(file) is None
