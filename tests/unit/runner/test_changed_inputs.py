"""An input that changes while a stage runs: nothing is recorded, and the next run uses the new input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.stage import Stage

from epigram.core.errors import TryAgainError
from epigram.runner.dvc import adapter, replaced_methods
from epigram.runner.dvc.repro import reproduce, translate

# The command changes its input itself, as a user does meanwhile.
CHANGES = {
    "given": "cat given > out && if [ -e edit ]; then echo 2 > given; fi",
    "folder": "cat folder/* > out && if [ -e edit ]; then echo 2 > folder/new; fi",
    "params.yaml": "cat params.yaml > out && if [ -e edit ]; then echo 'number: 2' > params.yaml; fi",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in ("_run_stage", "save_deps"):
        monkeypatch.setattr(Stage, name, getattr(Stage, name))  # restored after the test
    Repo.init(str(tmp_path), no_scm=True).close()
    (tmp_path / "given").write_text("1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("1\n")
    (tmp_path / "params.yaml").write_text("number: 1\n")
    return tmp_path


def write_stage(root: Path, changed: str) -> None:
    stage = {"cmd": CHANGES[changed], "deps": ["given", "folder"], "params": ["number"], "outs": ["out"]}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"copy": stage}}))


def run(*, force: bool = False) -> str:
    """Run the stage as a run does, and raise the error that a run reports."""
    try:
        return reproduce("copy", single_item=True, force=force)
    except DvcException as error:
        raise translate(error) from error


def recorded(root: Path) -> list[Path]:
    """Return the entries of DVC's run cache."""
    return [path for path in (adapter.shared_cache_folder(root) / "runs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("changed", CHANGES)
def test_an_input_that_changes_meanwhile_is_not_recorded(root: Path, changed: str, force: bool) -> None:
    write_stage(root, changed)
    (root / "edit").touch()
    replaced_methods.check_inputs_again()
    with pytest.raises(TryAgainError, match=rf"^{changed} changed while copy ran; run it again$"):
        run(force=force)
    assert not (root / "dvc.lock").exists()
    assert recorded(root) == []
    (root / "edit").unlink()
    assert run() == "Completed"
    assert "2" in (root / "out").read_text()
    assert run() == "Cached"


def test_a_forced_run_compares_with_the_inputs_before_the_command_not_with_those_of_the_last_run(root: Path) -> None:
    write_stage(root, "given")
    replaced_methods.check_inputs_again()
    assert run() == "Completed"
    (root / "given").write_text("3\n")
    assert run(force=True) == "Completed"
    assert (root / "out").read_text() == "3\n"
    assert run() == "Cached"


def test_only_the_output_of_the_same_inputs_is_restored(root: Path) -> None:
    write_stage(root, "given")
    replaced_methods.check_inputs_again()
    assert run() == "Completed"
    for text, state in (("3\n", "Completed"), ("1\n", "Restored"), ("3\n", "Restored")):
        (root / "given").write_text(text)
        assert (run(), (root / "out").read_text()) == (state, text)
