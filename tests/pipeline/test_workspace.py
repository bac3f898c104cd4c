"""A workspace is a copy of the working tree or of a commit, outside the user's tree, with a shared cache."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo

from epigram.core.errors import InputMissingError, ParameterError, TryAgainError
from epigram.core.files import atomic_file, atomic_folder
from epigram.runner.dvc import graph
from epigram.runner.workspace import workspace
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import Workspace
from tests.support.toy import Toy, copied


def opened(toy: Toy, **wanted: Any) -> Workspace:
    with workspace.open_workspace(Request(root=toy.root, **wanted)) as place:
        return place


def state(toy: Toy) -> tuple[str, str, str, bytes]:
    """Return the state that the user sees: status, branches, history and index."""
    asked = (("status", "--porcelain"), ("branch", "--list", "--verbose"), ("log", "--oneline"))
    status, branches, history = (toy.shell("git", *question) for question in asked)
    return status, branches, history, (toy.root / ".git" / "index").read_bytes()


def test_without_overrides_the_run_is_in_the_tree_itself(toy: Toy) -> None:
    assert opened(toy).path == toy.root


def test_a_workspace_has_uncommitted_edits_and_leaves_the_tree_alone(toy: Toy) -> None:
    (toy.root / "step.py").write_text((toy.root / "step.py").read_text() + "# edited\n")
    (toy.root / "new.txt").write_text("untracked")
    (toy.root / "staged.txt").write_text("staged")
    toy.shell("git", "add", "staged.txt")
    (toy.root / "data" / "local" / "mine.csv").write_text("a user's own file")
    before = state(toy)

    place = opened(toy, dataset="other")
    assert state(toy) == before
    assert (place.path / "step.py").read_text().endswith("# edited\n")
    assert (place.path / "new.txt").read_text() == "untracked"
    assert (place.path / "staged.txt").read_text() == "staged"
    assert (place.path / "data" / "local" / "mine.csv").read_text() == "a user's own file"
    assert place.dataset == "other"
    assert place.revision.endswith("-dirty")
    assert "dataset: toy" in (toy.root / "params.yaml").read_text()


def test_a_data_set_that_is_a_path_gets_no_workspace(toy: Toy) -> None:
    params = toy.root / "params.yaml"
    params.write_text(params.read_text().replace("dataset: toy", "dataset: ../../../precious"))
    with pytest.raises(
        ParameterError, match=r"params\.yaml: dataset is '\.\./\.\./\.\./precious'; expected letters, digits"
    ):
        opened(toy, revision="HEAD")
    toy.shell("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--all", "--message", "a path")
    place = opened(toy, dataset="other", revision="HEAD~1")
    assert place.dataset == "other" and not list(toy.root.parent.glob("precious*"))


def test_the_same_overrides_find_the_same_workspace_with_its_outputs(toy: Toy) -> None:
    place = opened(toy, seeds=(1,))
    subprocess.run(["dvc", "repro", "--quiet"], cwd=place.path, env=toy.env, check=True)
    (toy.root / "note.txt").write_text("a later edit")

    again = opened(toy, seeds=(1,))
    assert again.path == place.path
    assert (again.path / "note.txt").read_text() == "a later edit"
    assert graph.read(again.path).current == set(graph.read(again.path).stages)
    (toy.root / "note.txt").unlink()
    assert not (opened(toy, seeds=(1,)).path / "note.txt").exists()
    assert opened(toy, seeds=(2,)).path != place.path


def test_the_cache_is_shared(toy: Toy) -> None:
    place = opened(toy, systems=("mlp",))
    subprocess.run(["dvc", "repro", "--quiet"], cwd=place.path, env=toy.env, check=True)
    toy.forget()
    toy.shell("dvc", "repro", "--quiet", "--single-item", "gather")
    assert toy.journal() == []


def test_a_workspace_shares_the_cache_of_a_folder_of_any_name(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "épi gram").mkdir()
    toy = copied(pristine, tmp_path / "épi gram", monkeypatch)
    (toy.root / ".dvc" / "config.local").write_text("['remote \"größe\"']\n    url = /srv/größe\n", encoding="utf-8")
    place = opened(toy, dataset="other")
    with Repo(str(place.path)) as repo:
        assert Path(repo.cache.local_cache_dir) == toy.root / ".dvc" / "cache"
        assert repo.config["remote"]["größe"]["url"] == "/srv/größe"


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_remote_s_password_stays_as_hidden_as_it_was(toy: Toy, mode: int) -> None:
    own = toy.root / ".dvc" / "config.local"
    own.write_text("['remote \"shared\"']\n    url = ssh://host/cache\n    password = secret\n")
    own.chmod(mode)
    copy = opened(toy, dataset="other").path / ".dvc" / "config.local"
    assert "password = secret" in copy.read_text()
    assert stat.S_IMODE(copy.stat().st_mode) == mode


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (2, 0o664, 0o775)])
def test_what_is_written_can_be_read_by_whom_the_umask_lets(tmp_path: Path, mask: int, file: int, folder: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_folder(tmp_path / "folder") as temporary, atomic_file(temporary / "file") as text:
            text.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == folder
    assert stat.S_IMODE((tmp_path / "folder" / "file").stat().st_mode) == file


def test_a_revision_is_a_commit_whatever_the_tree_looks_like(toy: Toy) -> None:
    (toy.root / "step.py").write_text("broken")
    place = opened(toy, revision="HEAD")
    assert "broken" not in (place.path / "step.py").read_text()
    assert place.revision == toy.shell("git", "rev-parse", "HEAD").strip()
    with pytest.raises(InputMissingError, match="no commit 'elsewhere'"):
        opened(toy, revision="elsewhere")


def test_a_repository_without_a_commit_has_workspaces_too(toy: Toy, tmp_path: Path) -> None:
    toy.shell("rm", "-rf", ".git")
    toy.shell("git", "init", "--quiet")
    assert opened(toy, dataset="other").dataset == "other"


def test_a_workspace_that_was_deleted_comes_back(toy: Toy) -> None:
    place = opened(toy, dataset="other")
    toy.shell("rm", "-rf", ".epigram")
    assert opened(toy, dataset="other").path == place.path


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock"])
def test_the_lock_of_a_killed_git_in_a_workspace_is_removed(toy: Toy, name: str) -> None:
    place = opened(toy, dataset="other").path
    lock = toy.root / ".git" / "worktrees" / place.name / name
    lock.touch()
    (toy.root / "new.txt").write_text("later")
    assert (opened(toy, dataset="other").path / "new.txt").read_text() == "later"
    assert not lock.exists()


def test_a_workspace_whose_creation_was_killed_is_created_again(toy: Toy) -> None:
    place = opened(toy, dataset="other").path
    (toy.root / ".git" / "worktrees" / place.name / "locked").write_text("initializing")
    shutil.rmtree(place)
    assert opened(toy, dataset="other").path == place


@pytest.mark.parametrize("wanted", [{}, {"dataset": "other"}])
def test_two_runs_do_not_share_a_place(toy: Toy, wanted: dict[str, Any]) -> None:
    with (
        workspace.open_workspace(Request(root=toy.root, **wanted)),
        pytest.raises(TryAgainError, match=r"another run \(process \d+\)"),
    ):
        opened(toy, **wanted)
    assert opened(toy, **wanted).main == toy.root


def commit_all(toy: Toy) -> None:
    """Commit the current working tree."""
    toy.shell("git", "add", "--all", "--force")
    toy.shell("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "all")


def test_data_that_is_a_link_is_refused_and_keeps_its_files(toy: Toy, tmp_path: Path) -> None:
    (toy.root / "data" / "local" / "mine.csv").write_text("a user's own file")
    (toy.root / "data").rename(tmp_path / "large")
    (toy.root / "data").symlink_to(tmp_path / "large")
    with pytest.raises(ParameterError, match=r"^data is a link; a run with overrides"):
        opened(toy, dataset="other")
    assert (tmp_path / "large" / "local" / "mine.csv").read_text() == "a user's own file"


def test_a_revision_with_links_in_the_place_of_folders_writes_nowhere_else(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config").write_bytes((toy.root / ".dvc" / "config").read_bytes())
    (toy.root / ".dvc").rename(tmp_path / "dvc")
    (toy.root / ".dvc").symlink_to(tmp_path / "own")
    commit_all(toy)
    (toy.root / ".dvc").unlink()
    (tmp_path / "dvc").rename(toy.root / ".dvc")
    with pytest.raises(ParameterError, match=r"^\.dvc is a link; "):
        opened(toy, revision="HEAD")
    assert [each.name for each in (tmp_path / "own").iterdir()] == ["config"]


def test_a_revision_with_a_link_in_the_place_of_our_own_folder_deletes_nothing(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "own" / "hub").mkdir(parents=True)
    (tmp_path / "own" / "hub" / "mine").write_text("a user's own file")
    toy.shell("git", "update-index", "--add", "--cacheinfo", f"120000,{link_to(toy, tmp_path / 'own')},.epigram")
    toy.shell("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "link")
    with pytest.raises(ParameterError, match=r"^\.epigram is a link; "):
        opened(toy, revision="HEAD")
    assert (tmp_path / "own" / "hub" / "mine").read_text() == "a user's own file"


def link_to(toy: Toy, target: Path) -> str:
    """Return the hash of the git object of a link to `target`."""
    (toy.root / "target").write_text(str(target))
    return toy.shell("git", "hash-object", "-w", "target").strip()


def test_a_checkpoint_of_the_hub_is_downloaded_to_the_main_tree(toy: Toy) -> None:
    first, second = (opened(toy, seeds=(seed,)).path for seed in (1, 2))
    (first / ".epigram/hub/org").mkdir()
    assert (toy.root / ".epigram/hub/org").is_dir()
    assert (second / ".epigram/hub/org").is_dir()
    opened(toy, seeds=(1,))  # again, in the same workspace
    assert (toy.root / ".epigram/hub/org").is_dir()


def test_a_revision_s_link_for_the_local_settings_of_dvc_is_not_followed(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    (toy.root / ".dvc" / "config.local").symlink_to(tmp_path / "precious")
    commit_all(toy)
    (toy.root / ".dvc" / "config.local").unlink()
    assert not (opened(toy, revision="HEAD").path / ".dvc" / "config.local").is_symlink()
    assert (tmp_path / "precious").read_text() == ""


def test_a_copied_repository_has_workspaces_of_its_own(toy: Toy, tmp_path: Path) -> None:
    first = opened(toy, seeds=(1,))
    shutil.copytree(toy.root, tmp_path / "copy", symlinks=True)
    before = toy.shell("git", "worktree", "list", "--porcelain")
    (tmp_path / "copy" / "note.txt").write_text("of the copy")
    with workspace.open_workspace(Request(root=tmp_path / "copy", seeds=(1,))) as place:
        assert (place.path / "note.txt").read_text() == "of the copy"
    assert toy.shell("git", "worktree", "list", "--porcelain") == before
    assert not (first.path / "note.txt").exists()


def test_a_workspace_with_a_damaged_lock_file_is_opened(toy: Toy) -> None:
    lock = opened(toy, seeds=(1,)).path / "dvc.lock"
    lock.write_bytes(b"\xff\xfe\x00")
    assert opened(toy, seeds=(1,)).path == lock.parent
    assert lock.read_bytes() == b"\xff\xfe\x00"
    assert graph.read(lock.parent).current == frozenset()  # the damaged lock file was moved away
    assert not lock.exists()
