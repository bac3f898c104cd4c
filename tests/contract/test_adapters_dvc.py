"""Contract with DVC: the installed version has the undocumented parts that the adapter uses."""

from __future__ import annotations

import errno
import inspect
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dvc.stage.run
import pytest
from dvc import dvcfile, schema
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.stage import Stage
from dvc.stage.cache import StageCache

from epigram.runner.dvc import adapter, replaced_methods, repro

NEEDS = f"dvc {dvc.__version__} has no {{}}: epigram needs it for {{}}"
# In the file, `last` comes first; `b` is frozen, so it depends on no stage.
DVC_YAML = """
stages:
  last: {cmd: cat a b > last, deps: [a, b], outs: [last]}
  b: {cmd: cat root > b, deps: [root], outs: [b], frozen: true}
  a: {cmd: cat root > a, deps: [root], outs: [a]}
  root: {cmd: echo 1 > root, deps: [given], outs: [root]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Repo.init(str(tmp_path), no_scm=True).close()
    (tmp_path / "given").write_text("x")
    (tmp_path / "dvc.yaml").write_text(DVC_YAML)
    return tmp_path


def reproduce(root: Path, *names: str) -> list[str]:
    """Run the stages one by one, and return those that were restored from the run cache."""
    with adapter.open_repo(root) as repo:
        restored = adapter.record_restored(repo)
        for name in names:
            repo.reproduce([name], single_item=True)
    return restored


@pytest.mark.parametrize(
    ("owner", "name", "purpose"),
    [
        (Repo, "reproduce", "running a stage in its own process"),
        (Repo, "status", "showing the stages that are up to date"),
        (Repo, "index", "the graph"),
        (Stage, "_run_stage", "finding inputs that change while a stage runs"),
        (Stage, "save_deps", "the same"),
        (StageCache, "restore", "showing that a stage was restored"),
        (StageCache, "save", "repeating an attempt that another process disturbed"),
        (StageCache, "_load_cache", "finding damaged entries of the run cache"),
        (dvcfile.Lockfile, "dump_stages", "the fast update of dvc.lock"),
        (schema, "COMPILED_LOCKFILE_SCHEMA", "finding a damaged dvc.lock"),
    ],
)
def test_dvc_has_the_parts_that_the_adapter_uses(owner: Any, name: str, purpose: str) -> None:
    assert hasattr(owner, name), NEEDS.format(f"{owner.__name__}.{name}", purpose)


def test_a_repository_can_wait_for_the_lock() -> None:
    known = inspect.signature(Repo.__init__).parameters
    assert "_wait_for_lock" in known, NEEDS.format("Repo(_wait_for_lock=)", "waiting for another process of DVC")


def test_stages_come_in_the_order_of_repro(root: Path) -> None:
    with adapter.open_repo(root) as repo:
        found = [(stage.name, {need.name for need in needs}) for stage, needs in adapter.stages_with_needs(repo)]
    assert dict(found) == {"root": set(), "a": {"root"}, "b": set(), "last": {"a", "b"}}
    with adapter.open_repo(root) as repo, repo.lock:
        from dvc.repo.reproduce import get_active_graph, plan_repro

        planned = plan_repro(get_active_graph(repo.index.graph))
    assert [name for name, _ in found] == [stage.name for stage in planned], NEEDS.format("such order", "dvc.lock")


def test_a_restored_stage_is_recorded_and_an_executed_one_is_not(root: Path) -> None:
    assert reproduce(root, "root", "a") == []
    (root / "a").unlink()
    assert reproduce(root, "root", "a") == ["a"]


def test_an_entry_that_another_process_deletes_is_written_again(root: Path) -> None:
    with adapter.open_repo(root) as repo:
        moved, move = [], repo.cache.legacy.move

        def delete_and_move(source: str, target: str) -> None:
            if not moved:
                Path(source).unlink()  # as a reader does that takes the unfinished file for a damaged one
            moved.append(target)
            move(source, target)

        repo.cache.legacy.move = delete_and_move
        adapter.retry_on_conflict(repo)
        repo.reproduce(["root"])
        assert len(moved) == 2
        assert Path(moved[0]).is_file()
    (root / "root").unlink()
    (root / "dvc.lock").unlink()
    assert reproduce(root, "root") == ["root"]


def test_an_entry_that_disappears_while_it_is_read_is_listed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(root, "root")
    (root / "root").unlink()
    (root / "dvc.lock").unlink()
    runs = str(adapter.shared_cache_folder(root) / "runs")
    listed, listdir = [], os.listdir

    def list_with_a_lost_file(folder: str) -> list[str]:
        if not str(folder).startswith(runs):
            return listdir(folder)
        listed.append(folder)
        return [*listdir(folder), *(["moved.tmp"] if len(listed) == 1 else [])]

    monkeypatch.setattr(os, "listdir", list_with_a_lost_file)
    assert repro.reproduce("root", single_item=True, force=False) == "Restored"
    assert len(listed) == 2


@pytest.mark.parametrize(("old", "new"), [(b"path: root", b"path: roov"), (b"path", b"\xffath"), (b"path", b"\0{")])
def test_a_damaged_entry_counts_as_missing(root: Path, old: bytes, new: bytes) -> None:
    """The name of an entry is its hash, which DVC does not compare."""
    for _ in range(2):
        reproduce(root, "root")
        (root / "root").unlink()
        (root / "dvc.lock").unlink()
        for entry in (adapter.shared_cache_folder(root) / "runs").glob("*/*/*"):
            entry.write_bytes(entry.read_bytes().replace(old, new))
        assert repro.reproduce("root", single_item=True, force=False) == "Completed"
    (root / "root").unlink()
    (root / "dvc.lock").unlink()
    assert repro.reproduce("root", single_item=True, force=False) == "Restored"


@pytest.mark.parametrize(("name", "attempts"), [("runs/x", adapter.MAX_ATTEMPTS), ("files/x", 1)])
def test_only_files_of_the_run_cache_are_tried_again_and_not_for_ever(name: str, attempts: int) -> None:
    class Cache:
        cache_dir, calls = "/cache/runs", 0

        def save(self) -> None:
            self.calls += 1
            raise FileNotFoundError(errno.ENOENT, "no such file", f"/cache/{name}")

        restore = save

    cache = Cache()
    adapter.retry_on_conflict(SimpleNamespace(stage_cache=cache))
    with pytest.raises(FileNotFoundError):
        cache.save()
    assert cache.calls == attempts


def test_the_lock_file_is_written_as_dvc_writes_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce(root, "root", "a")
    own = (root / "dvc.lock").read_bytes()
    (root / "dvc.lock").unlink()
    monkeypatch.setattr(dvcfile.Lockfile, "dump_stages", dvcfile.Lockfile.dump_stages)  # restored after the test
    written: list[bool] = []
    dump_blocks = replaced_methods.dump_blocks

    def noted(lock_file: Any, stages: list[Any], **options: Any) -> bool:
        written.append(dump_blocks(lock_file, stages, **options))
        return written[-1]

    monkeypatch.setattr(replaced_methods, "dump_blocks", noted)
    replaced_methods.write_blocks_only()
    reproduce(root, "root", "a")
    assert (root / "dvc.lock").read_bytes() == own
    assert written == [True, True], NEEDS.format("matching Lockfile.dump_stages", "the fast update of dvc.lock")


def test_dvc_itself_writes_a_lock_file_in_another_format(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dvcfile.Lockfile, "dump_stages", dvcfile.Lockfile.dump_stages)  # restored after the test
    replaced_methods.write_blocks_only()
    reproduce(root, "root")
    (root / "dvc.lock").write_text("# a comment\n" + (root / "dvc.lock").read_text())
    reproduce(root, "a")
    assert (root / "dvc.lock").read_text().startswith("# a comment\n")
    assert list(adapter.locked_stages(root)) == ["root", "a"]


def test_a_damaged_lock_file_is_found(root: Path) -> None:
    reproduce(root, "root")
    path = root / "dvc.lock"
    assert adapter.is_valid_lock_file(path)
    for damaged in (b"", path.read_bytes()[:9], b"schema: '2.0'\nstages: [", b"\xff\xfe"):
        path.write_bytes(damaged)
        assert not adapter.is_valid_lock_file(path), damaged


def test_the_table_of_locks_is_changed_only_under_the_lock_of_the_repository(root: Path) -> None:
    with adapter.open_repo(root) as repo:
        (stage,) = repo.stage.collect("root")
        with pytest.raises(AssertionError):
            stage.reproduce()


@pytest.mark.parametrize(("command", "code"), [("exit 65", 65), ("kill -9 $$", 137)])
def test_the_exit_code_of_a_command_is_in_the_exception(
    command: str, code: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dvc.stage.run, "StageCmdFailedError", dvc.stage.run.StageCmdFailedError)  # restored
    repro.install()
    (root / "dvc.yaml").write_text(f"stages: {{root: {{cmd: {command}}}}}")
    with pytest.raises(DvcException) as raised:
        reproduce(root, "root")
    said = NEEDS.format("class of failed commands in dvc.stage.run", "the exit code of a stage")
    assert repro.command_exit_code(raised.value) == code, said
