"""Tests of the address of Prefect's database: it is never read from make's command line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from epigram.core.errors import InputMissingError, ParameterError
from epigram.runner.service import database

ROOT = Path(__file__).parents[3]
ADDRESS = "postgresql+asyncpg://me:x9$(touch struck)s3cret@127.0.0.1/runs"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE", "DATABASE_FILE"):
        monkeypatch.setenv(name, "")


def kept(folder: Path, mode: int) -> Path:
    file = folder / "address"
    file.write_text(f"{ADDRESS}\n")
    file.chmod(mode)
    return file


def test_the_environment_gives_the_address_as_it_is_and_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", ADDRESS)
    assert database.pop_address() == ADDRESS
    assert "DATABASE" not in os.environ
    assert database.pop_address() == ""


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_the_user_alone_gives_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    monkeypatch.setenv("DATABASE_FILE", str(kept(tmp_path, mode)))
    assert database.pop_address() == ADDRESS
    assert "DATABASE_FILE" not in os.environ


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    file = kept(tmp_path, mode)
    monkeypatch.setenv("DATABASE_FILE", str(file))
    with pytest.raises(ParameterError, match=f"run chmod 600 {file}") as raised:
        database.pop_address()
    assert "s3cret" not in str(raised.value)


def test_a_missing_file_and_two_addresses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_FILE", str(tmp_path / "none"))
    with pytest.raises(InputMissingError, match="does not exist"):
        database.pop_address()
    monkeypatch.setenv("DATABASE_FILE", str(kept(tmp_path, 0o600)))
    monkeypatch.setenv("DATABASE", ADDRESS)
    with pytest.raises(ParameterError, match="both set"):
        database.pop_address()


@pytest.mark.parametrize("target", ["dashboard", "help", "run"])
def test_make_refuses_the_address_on_its_command_line_and_runs_nothing_of_it(target: str, tmp_path: Path) -> None:
    value = ADDRESS.replace("touch struck", f"shell touch {tmp_path}/struck")
    done = subprocess.run(
        ["make", target, f"DATABASE={value}"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "set it in the environment (DATABASE=... make dashboard)" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_make_takes_the_environment_s_address_as_it_is(tmp_path: Path) -> None:
    value = ADDRESS.replace("touch struck", f"shell touch {tmp_path}/struck")
    makefile = tmp_path / "own.mk"
    makefile.write_text("include Makefile\nshow:\n\t@printenv DATABASE\n")
    done = subprocess.run(
        ["make", "-f", str(makefile), "show"], cwd=ROOT, env={**os.environ, "DATABASE": value},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (f"{value}\n", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["own.mk"]
