"""The champion is a branch and tags with all that it was trained from; promotion leaves the user's files unchanged."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.runner.champions import champion, champion_refs
from epigram.runner.git import FIXED_AUTHOR, git
from epigram.runner.runs import reservations
from tests.support.champions import made, promoted, weights
from tests.support.toy import Toy


def test_there_is_none_at_first(toy: Toy) -> None:
    assert champion.current(toy.root) is None and champion.history(toy.root) == []
    with pytest.raises(InputMissingError, match="cannot roll back: there is no champion yet"):
        champion.rollback(toy.root)


def test_the_newest_is_in_use_and_git_holds_all_of_them(reign: Toy) -> None:
    now = champion.current(reign.root)
    assert now is not None and (now.number, now.previous, now.restores) == (3, 2, None)
    assert [each.verdict for each in champion.history(reign.root)] == ["better: 3", "better: 2", "better: 1"]
    assert weights(reign) == "weights 3"
    assert reign.shell("git", "tag", "--list").split() == ["champion@v1.0.0", "champion@v2.0.0", "champion@v3.0.0"]
    assert "better: 3" in reign.shell("git", "log", "-1", "--format=%B", "champion")


def test_gto_shows_every_champion_and_the_newest_as_the_latest_version(reign: Toy) -> None:
    """The tags have the form of GTO's registry, which `dvc artifacts` reads, too."""
    shown = json.loads(reign.shell(str(Path(sys.executable).with_name("gto")), "show", "champion", "--json"))
    assert [each["version"] for each in shown] == ["v3.0.0", "v2.0.0", "v1.0.0"]
    assert {each["artifact"] for each in shown} == {"champion"}
    commits = [reign.shell("git", "rev-parse", f"{champion.tag(number)}^{{commit}}").strip() for number in (3, 2, 1)]
    assert [each["commit_hexsha"] for each in shown] == commits
    assert (
        reign.shell(str(Path(sys.executable).with_name("gto")), "show", "champion@latest", "--version").strip()
        == "v3.0.0"
    )


def test_a_commit_holds_the_tree_that_made_the_model_and_nothing_else_of_the_users(toy: Toy) -> None:
    (toy.root / "step.py").write_text((toy.root / "step.py").read_text() + "# edited\n")
    (toy.root / "passwords.txt").write_text("a secret that git has not seen")
    (toy.root / "data" / "sources" / "new.yaml").write_text("name: new\n")
    index = (toy.root / ".git" / "index").read_bytes()
    before = [toy.shell("git", *what) for what in (("log", "--oneline"), ("branch", "--show-current"))]
    made_by = toy.shell("git", "rev-parse", "HEAD").strip()
    promoted(toy, 1)
    files = toy.shell("git", "ls-tree", "-r", "--name-only", "champion").split()
    assert {"champion.json", "reference.json", "dvc.lock", "dvc.yaml", "params.yaml", "step.py"} <= set(files)
    assert "data/sources/new.yaml" in files and "passwords.txt" not in files
    assert "# edited" in toy.shell("git", "show", "champion:step.py")
    assert made_by in toy.shell("git", "log", "--format=%H", "champion")
    assert [toy.shell("git", *what) for what in (("log", "--oneline"), ("branch", "--show-current"))] == before
    assert (toy.root / ".git" / "index").read_bytes() == index


def test_going_back_twice_and_forward_again(reign: Toy) -> None:
    assert champion.rollback(reign.root).restores == 2
    assert weights(reign) == "weights 2"
    assert champion.rollback(reign.root).restores == 1
    assert weights(reign) == "weights 1"
    with pytest.raises(InputMissingError, match="cannot roll back: champion 5 is the first"):
        champion.rollback(reign.root)
    hashes = {each.number: each.hashes.model for each in champion.history(reign.root)}
    assert [champion.rolled_back(reign.root, hashes[number]) for number in (1, 2, 3)] == [None, 4, 3]
    assert (promoted(reign, 4).number, weights(reign)) == (6, "weights 4")
    assert champion.rollback(reign.root).restores == 1


def test_a_deleted_model_comes_back_from_the_cache(reign: Toy) -> None:
    shutil.rmtree(reign.root / "runs")
    champion.rollback(reign.root)
    assert weights(reign) == "weights 2"
    assert (reign.root / "runs" / "champion" / "reference.json").read_text() == '{"known": 2}\n'


def test_a_damaged_model_is_put_right(reign: Toy) -> None:
    now = champion.current(reign.root)
    assert now is not None
    (reign.root / "runs" / "toy-3" / "model" / "model.safetensors").write_text("scribble")
    champion.restore(reign.root, now)
    assert weights(reign) == "weights 3"


def test_a_model_that_is_nowhere_any_more_cannot_be_gone_back_to(reign: Toy) -> None:
    shutil.rmtree(reign.root / "runs" / "toy-2")
    shutil.rmtree(reign.root / ".dvc" / "cache")
    with pytest.raises(
        InputMissingError, match="toy-2/model is incomplete or changed, and DVC's cache does not contain it"
    ):
        champion.rollback(reign.root)
    now = champion.current(reign.root)
    assert now is not None and now.number == 3 and weights(reign) == "weights 3"


@pytest.mark.parametrize("cut", ["update-ref", "link"])
def test_a_crash_while_promoting_leaves_a_champion(reign: Toy, cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = made(reign, 4)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(champion, *(("git", dies_at_branch) if cut == "update-ref" else ("restore", dies)))
        champion.promote(reign.root, reign.root, entry, "{}\n")
    now = champion.current(reign.root)
    assert now is not None and now.number == (3 if cut == "update-ref" else 4)
    champion.restore(reign.root, now)
    assert weights(reign) == f"weights {now.number}"
    again = champion.promote(reign.root, reign.root, replace(entry, verdict="again"), "{}\n")
    assert again.number == now.number + 1 and champion.history(reign.root)[0].verdict == "again"


def dies(*_: Any) -> None:
    raise KeyboardInterrupt


def dies_at_branch(folder: Path, *arguments: str, **options: Any) -> str:
    if arguments[0] == "update-ref":
        raise KeyboardInterrupt
    return git(folder, *arguments, **options)


def test_a_branch_of_the_users_own_is_left_alone(toy: Toy) -> None:
    toy.shell("git", "branch", "champion")
    with pytest.raises(
        ParameterError,
        match=r"git has no champion\.json at champion; retraining reserves the branch 'champion' and the tags",
    ):
        champion.current(toy.root)


def test_a_branch_that_is_checked_out_is_not_moved(reign: Toy) -> None:
    reign.shell("git", "worktree", "add", "--quiet", str(reign.told / "elsewhere"), "champion")
    with pytest.raises(ParameterError, match="'champion' is checked out"):
        champion.rollback(reign.root)


def test_an_output_that_the_run_does_not_have_is_said(reign: Toy) -> None:
    with pytest.raises(DataError, match="has no output out/nothing"):
        champion_refs.output_hash(reign.root, "out/nothing")


def test_another_model_in_the_folder_of_a_run_is_not_taken_for_the_champion(reign: Toy) -> None:
    now, runs = champion.current(reign.root), reign.root / "runs"
    assert now is not None
    shutil.rmtree(runs / "toy-3" / "model")
    shutil.copytree(runs / "toy-2" / "model", runs / "toy-3" / "model")
    champion.restore(reign.root, now)
    assert weights(reign) == "weights 3"


@pytest.mark.parametrize("state", ["deleted", "moved"])
def test_the_history_is_that_of_the_branch_whatever_its_tags_are(reign: Toy, state: str) -> None:
    command = ["--delete", "champion@v2.0.0"] if state == "deleted" else ["--force", "champion@v2.0.0", "champion"]
    reign.shell("git", "tag", *command)
    assert [each.number for each in champion.history(reign.root)] == [3, 2, 1]
    with pytest.raises(ParameterError, match="champion 1 refers to the run"):
        reservations.check_not_referenced(reign.root, ["toy-1"])
    assert champion.rollback(reign.root).restores == 2 and weights(reign) == "weights 2"


def test_commits_of_the_user_on_the_branch_hide_no_champion(reign: Toy) -> None:
    tree = reign.shell("git", "rev-parse", "champion^{tree}").strip()
    commit = git(reign.root, "commit-tree", tree, "-p", "champion", "-m", "mine", env=FIXED_AUTHOR)
    reign.shell("git", "update-ref", champion.BRANCH, commit)
    assert [each.number for each in champion.history(reign.root)] == [3, 2, 1]


def test_two_worktrees_have_one_lock(reign: Toy) -> None:
    other = reign.root.parent / "other"
    reign.shell("git", "worktree", "add", "--quiet", "--detach", str(other))
    with champion.lock(reign.root):
        assert champion.is_locked(other)
    assert not champion.is_locked(other)


def test_a_changed_reference_is_no_other_drift_but_an_error(reign: Toy) -> None:
    now, file = champion.current(reign.root), reign.root / "runs" / "toy-3" / "reference.json"
    assert now is not None
    champion.check_reference(reign.root, now)
    file.write_text(file.read_text().replace("3", "1"))
    with pytest.raises(DataError, match=r"reference\.json is not that of champion 3 in git; delete the file and rerun"):
        champion.check_reference(reign.root, now)
    file.unlink()
    champion.restore(reign.root, now)
    champion.check_reference(reign.root, now)
