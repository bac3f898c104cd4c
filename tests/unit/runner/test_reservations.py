"""Tests of run names: two runs never share one, and a referenced run keeps its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import lock_descriptor

from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.runner.champions import champion
from epigram.runner.runs import reservations
from epigram.runner.workspace.request import Request

SECOND = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BASE = "toy-20260102-030405"


@pytest.fixture(autouse=True)
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the clock, so that the whole test happens in one second."""
    monkeypatch.setattr(reservations, "datetime", SimpleNamespace(now=lambda _: SECOND))


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """Return a folder without git and with three runs."""
    for name in ("old", "mine", "new"):
        (tmp_path / "runs" / name / "model").mkdir(parents=True)
    return tmp_path


@contextmanager
def in_another_process(main: Path, name: str | None) -> Iterator[str]:
    """Reserve a name in another process, which is killed at the end."""
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        os.write(theirs, reservations.reserve(main, name, "toy").encode())
        signal.pause()
        os._exit(1)
    os.close(theirs)
    try:
        yield os.read(ours, 100).decode()
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_runs_that_start_in_one_second_have_different_names(tmp_path: Path) -> None:
    names = [reservations.reserve(tmp_path, None, "toy") for _ in range(3)]
    with in_another_process(tmp_path, None) as theirs:
        assert [*names, theirs] == [BASE, f"{BASE}-2", f"{BASE}-3", f"{BASE}-4"]
    assert reservations.reserve(tmp_path, None, "toy") == f"{BASE}-4"
    for name in [*names, theirs]:
        reservations.release(tmp_path, name)
    assert not any((tmp_path / ".epigram" / "names").iterdir())


@pytest.mark.parametrize("there", [BASE, f"{BASE}-01"])
def test_a_name_of_a_run_or_of_a_sweep_that_is_there_is_not_given_again(tmp_path: Path, there: str) -> None:
    (tmp_path / "runs" / there).mkdir(parents=True)
    assert reservations.reserve(tmp_path, None, "toy") == f"{BASE}-2"


def test_a_name_whose_owner_ends_at_this_moment_is_reserved_once(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []

    def lock(descriptor: int, *, blocking: bool) -> bool:
        if not removed:
            removed.append(next((main / ".epigram" / "names").iterdir()))
            removed[0].unlink()
        return lock_descriptor(descriptor, blocking=blocking)

    monkeypatch.setattr(reservations, "lock_descriptor", lock)
    assert reservations.reserve(main, "mine", "toy") == "mine"
    with pytest.raises(TryAgainError):
        reservations.reserve(main, "mine", "toy")


def test_a_name_that_another_run_has_is_refused_until_that_run_ends(main: Path) -> None:
    busy = pytest.raises(TryAgainError, match="--name 'mine' is in use by another run")
    with in_another_process(main, "mine"), busy:
        reservations.reserve(main, "mine", "toy")
    assert reservations.reserve(main, "mine", "toy") == "mine"
    with pytest.raises(TryAgainError):
        reservations.reserve(main, "mine", "toy")
    with reservations.release_on_exit(main, "mine"):
        pass
    assert reservations.reserve(main, "mine", "toy") == "mine"


@pytest.mark.parametrize(("target", "name"), [("mine", "mine"), ("mine/model", "mine"), ("../runs/./new", "new")])
@pytest.mark.parametrize("link", ["champion", "latest", "best"])
def test_a_run_that_a_link_points_to_is_not_replaced(main: Path, link: str, target: str, name: str) -> None:
    (main / "runs" / link).symlink_to(target)
    with pytest.raises(
        ParameterError, match=f"--name '{name}': runs/{link} refers to the run of that name; choose another"
    ):
        reservations.reserve(main, name, "toy")
    assert reservations.reserve(main, "old", "toy") == "old"
    (main / "runs" / link).unlink()
    assert reservations.reserve(main, name, "toy") == name


def test_a_run_that_a_rollback_can_go_back_to_is_not_replaced(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = [SimpleNamespace(number=2, run="new"), SimpleNamespace(number=1, run="old")]
    monkeypatch.setattr(champion, "history", lambda _: past)
    with pytest.raises(ParameterError, match="--name 'old': champion 1 refers to the run of that name"):
        reservations.check_not_referenced(main, ["mine", "old"])
    reservations.check_not_referenced(main, ["mine"])


def test_a_branch_champion_of_the_users_own_stops_no_run(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def history(_: Path) -> None:
        raise EpigramError

    monkeypatch.setattr(champion, "history", history)
    assert reservations.reserve(main, "old", "toy") == "old"


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", ".hidden", "-x", "a b", "", "a\n", "x" * 101, "latest"])
def test_a_name_that_is_more_than_a_name_is_refused_wherever_it_comes_from(tmp_path: Path, name: str) -> None:
    for taken in (lambda: Request(root=tmp_path, name=name), lambda: reservations.reserve(tmp_path, name, "toy")):
        with pytest.raises(ParameterError, match=r"--name|run: name"):
            taken()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "allowed"), [("é" * 100, True), ("漢" * 66, True), ("漢" * 67, False)])
def test_a_name_is_no_longer_than_that_of_a_file(main: Path, name: str, allowed: bool) -> None:
    """The limit is 200 bytes in UTF-8: `é` has two bytes and `漢` has three."""
    if allowed:
        assert reservations.reserve(main, name, "d") == name
        reservations.release(main, name)
    else:
        with pytest.raises(ParameterError, match=r"at most 100 characters \(200 bytes\)"):
            reservations.reserve(main, name, "d")


def test_a_run_that_teaches_is_not_replaced(main: Path) -> None:
    """Its students in DVC's cache are those of this model, which only its name identifies."""
    small = "{view: token, recipe: fast_text, teacher: runs/mine/model}"
    params = "{dataset: toy, seeds: [0], views: {token: {texts: data/local/a.txt}}, systems: {small: %s}}\n"
    (main / "params.yaml").write_text(params % small)
    with pytest.raises(ParameterError, match=r"'mine': systems\.small\.teacher refers to the run of that name; choose"):
        reservations.reserve(main, "mine", "toy")
    assert reservations.reserve(main, "new", "toy") == "new"
