"""Tests of what the drill counts as a loss of rows, runs and champions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.drill import promotion, trial  # noqa: F401  registers its faults
from tests.drill.faults import FAULTS
from tests.drill.inbox import row_losses, waiting
from tests.drill.names import _runs
from tests.drill.place import Running
from tests.drill.shop import CROWNED, PROMOTED, move_worktrees
from tests.drill.standing import in_use, lost, model_hash, settled
from tests.support.drill_samples import ENDED
from tests.support.drill_shop_samples import STOPS, ScriptedShop, enter, git, manifest_hash, point, save_run


@pytest.fixture
def bench(tmp_path: Path) -> ScriptedShop:
    """Return a bench with champion 2 in use and champion 1 before it."""
    bench = ScriptedShop(tmp_path, {})
    bench.begin(PROMOTED)
    return bench


def test_a_repository_that_nothing_happened_to_has_no_losses(bench: ScriptedShop) -> None:
    assert lost(bench.repo, bench.before) == []
    assert settled(bench.repo, 2, manifest_hash(2)) == []


def test_a_file_of_a_run_that_is_gone_or_changed_is_lost(bench: ScriptedShop) -> None:
    (bench.repo / "runs/r1/report.html").unlink()
    (bench.repo / "runs/r2/summary.json").write_text("{}")
    (bench.repo / "runs/r2/reference.json").write_text("{}")  # an added file is not a loss
    point(bench.repo, 1)
    assert lost(bench.repo, bench.before) == ["run changed: runs/r1/report.html", "run changed: runs/r2/summary.json"]


def test_a_tag_that_moved_is_lost(bench: ScriptedShop) -> None:
    git(bench.repo, "tag", "--force", "champion@v1.0.0", "champion@v2.0.0")
    git(bench.repo, "tag", "champion@v3.0.0", "champion@v2.0.0")
    assert lost(bench.repo, bench.before) == ["tag moved: refs/tags/champion@v1.0.0"]
    assert settled(bench.repo) == ["no champion 1"]


def test_a_change_of_the_users_files_is_a_loss(bench: ScriptedShop) -> None:
    (bench.repo / ".gitignore").write_text("/runs/\n/data/\nx\n")
    assert len(lost(bench.repo, bench.before)) == 1


def test_the_link_and_the_branch_name_one_champion(bench: ScriptedShop) -> None:
    point(bench.repo, 1)
    assert settled(bench.repo) == [
        "runs/champion does not point to r2",
        f"runs/champion/model is {manifest_hash(1)[:8]}",
    ]
    (bench.repo / "runs/champion").unlink()
    assert "runs/champion leads nowhere" in settled(bench.repo)


def test_the_champion_is_the_expected_one(bench: ScriptedShop) -> None:
    assert settled(bench.repo, 3, manifest_hash(1)) == [
        "champion 2 instead of 3",
        f"the champion's model is {manifest_hash(2)[:8]} instead of {manifest_hash(1)[:8]}",
    ]


def test_a_branch_behind_its_tag_is_a_loss(bench: ScriptedShop) -> None:
    git(bench.repo, "commit", "--quiet", "--allow-empty", "-m", "other")
    git(bench.repo, "tag", "--force", "champion@v2.0.0")
    assert "the branch champion is not at the tag of champion 2" in settled(bench.repo)


def test_an_object_that_git_lost_is_a_loss(bench: ScriptedShop) -> None:
    objects = (path for path in (bench.repo / ".git/objects").glob("??/*") if path.is_file())
    for path in objects:
        if path.stat().st_size < 60:  # small objects, among them champion.json of champion 1
            path.unlink()
    assert settled(bench.repo)


def test_a_model_is_whole_if_every_file_of_its_manifest_is(bench: ScriptedShop) -> None:
    model = bench.repo / "runs/r2/model"
    assert model_hash(model) == manifest_hash(2)
    assert in_use(bench.repo, {manifest_hash(1), manifest_hash(2)}) == []
    assert in_use(bench.repo, {manifest_hash(1)}) == [f"runs/champion/model is {manifest_hash(2)[:8]}"]
    (model / "weights").write_text("other")
    assert in_use(bench.repo, {manifest_hash(1), manifest_hash(2)}) == ["runs/champion/model is not whole"]
    (model / "weights").unlink()
    assert model_hash(model) == ""


def test_without_a_champion_nothing_is_settled(tmp_path: Path) -> None:
    assert settled(tmp_path) == ["the branch champion has no champion.json"]


def test_rows_are_there_once() -> None:
    assert row_losses(["a", "b"], ["c"], ["a", "b", "c"]) == []
    assert row_losses(["a", "b"], ["c", "d"], ["a", "c", "c"]) == [
        "1 rows that arrived are lost",
        "1 rows are gone from the data set",
        "1 texts were taken twice",
    ]


def test_what_is_not_archived_waits(bench: ScriptedShop) -> None:
    for name in ("b.csv", ".c.csv", "working/d.csv", "taken/e.csv"):
        path = bench.repo / "data/local/incoming" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert waiting(bench) == [".c.csv", "b.csv", "working/d.csv"]


def test_two_runs_have_two_whole_folders(bench: ScriptedShop) -> None:
    assert _runs(bench, ["r1", "r2"]) == []
    assert _runs(bench, ["r1", "r1"]) == ["two runs with one name: r1, r1"]
    save_run(bench.repo, 3)
    (bench.repo / "runs/r3/summary.json").write_text('{"name": "r1"}')
    shutil.rmtree(bench.repo / "runs/r1/model")
    assert _runs(bench, ["r1", "r3"]) == ["runs/r1 is not whole", "runs/r3 is not whole"]


def test_worktrees_of_a_copy_are_its_own(bench: ScriptedShop, tmp_path: Path) -> None:
    git(bench.repo, "worktree", "add", "--quiet", "--detach", ".epigram/workspaces/w")
    copy = tmp_path / "copy"
    shutil.copytree(bench.repo, copy, symlinks=True)
    move_worktrees(copy, bench.repo)
    shutil.rmtree(bench.repo)
    git(copy / ".epigram/workspaces/w", "status")
    git(copy, "worktree", "list")
    assert str(copy) in (copy / ".git/worktrees/w/gitdir").read_text()


# Whole trials: the commands' actions decide the verdict.


def tried(folder: Path, name: str, stepped: str = STOPS, retrain: str = ENDED, turn: int = 0) -> trial.Trial:
    return trial.run(ScriptedShop(folder, {"stepped": stepped, "retrain": retrain}), 1, FAULTS[name], "s", turn)


def test_a_promotion_that_is_not_made_up_for_is_a_loss(tmp_path: Path) -> None:
    found = tried(tmp_path, "kill -9 between two steps of a promotion")
    assert found.observed
    assert found.losses == (
        "champion 1 instead of 2",
        f"the champion's model is {manifest_hash(1)[:8]} instead of {manifest_hash(2)[:8]}",
    )


def test_a_champion_that_is_broken_right_after_the_fault_is_a_loss(tmp_path: Path) -> None:
    broken = f"rm runs/r1/model/weights; {STOPS}"
    found = tried(tmp_path, "kill -9 between two steps of a promotion", broken)
    assert "after the fault: runs/champion/model is not whole" in found.losses


@pytest.mark.parametrize(("done", "asked"), [(True, ("--show",)), (False, ("--rollback",))])
def test_a_rollback_that_was_done_is_not_done_again(tmp_path: Path, done: bool, asked: tuple[str, ...]) -> None:
    """If `done`, the command had already restored champion 1 as the third champion before it was killed."""

    class Shop(ScriptedShop):
        def stepped(self, *arguments: Any) -> tuple[Running, Path]:
            if done:
                enter(self.repo, 3, 1)
            return super().stepped(*arguments)

    bench = Shop(tmp_path, {"stepped": STOPS, "retrain": ENDED})
    found = trial.run(bench, 1, FAULTS["kill -9 between two steps of a rollback"], "s")
    assert bench.asked == [asked]
    assert (found.losses == ()) is done


def test_rows_that_stay_in_the_inbox_are_a_loss(tmp_path: Path) -> None:
    found = tried(tmp_path, "kill -9 between two steps of taking rows in")
    assert found.observed
    assert found.losses == ("20 rows that arrived are lost", "still in the inbox: batch.csv")


@pytest.mark.parametrize(("first", "rows"), [("", 20), ("mkdir working; mv *.csv working; ", 40)])
def test_rows_of_a_file_that_was_replaced_in_the_inbox_are_not_the_retrainings(
    tmp_path: Path, first: str, rows: int
) -> None:
    found = tried(
        tmp_path, "a file renamed onto a waiting file of the inbox", f"cd data/local/incoming; {first}{STOPS}"
    )
    assert found.observed
    assert found.losses[0] == f"{rows} rows that arrived are lost"


def test_a_file_that_changed_while_it_was_read_is_named(tmp_path: Path) -> None:
    says = "echo 'error: data/local/incoming/batch.csv changed after it was read; the next retraining reads it again'"
    name, refused = "rows appended to a file of the inbox", f"{STOPS}{says}; exit 65"
    assert tried(tmp_path / "clear", name, refused).losses[0] == "40 rows that arrived are lost"
    assert tried(tmp_path / "other", name, refused.replace("batch", "x")).losses[0].startswith("no clear line")


def test_a_run_that_takes_the_champions_place_is_a_loss(tmp_path: Path) -> None:
    bench = ScriptedShop(tmp_path, {"pipeline": "echo report: runs/r1 runs/r2; rm runs/r1/model/weights"})
    found = trial.run(bench, 1, FAULTS["a run named as the champion's"], "s")
    assert found.observed
    assert any(loss.startswith("exit code 0 instead of [64]") for loss in found.losses)
    assert "run changed: runs/r1/model/weights" in found.losses


def test_a_run_that_is_refused_costs_nothing(tmp_path: Path) -> None:
    refusal = "echo 'error: runs/r1 and runs/r2 are kept'; exit 64"
    found = trial.run(ScriptedShop(tmp_path, {"pipeline": refusal}), 1, FAULTS["a run named as the champion's"], "s")
    assert (found.observed, found.losses) == (True, ())


def test_a_full_disk_that_is_not_named_is_a_loss(tmp_path: Path) -> None:
    found = tried(tmp_path, "disk full under a promotion", f"{STOPS}echo 'error: git tag failed'; exit 66")
    assert [loss.partition(":")[0] for loss in found.losses[:2]] == ["no clear line", "exit code 66 instead of [0, 74]"]


def test_the_states_of_the_shop_are_there(tmp_path: Path) -> None:
    bench = ScriptedShop(tmp_path, {})
    bench.begin(CROWNED)
    assert settled(bench.repo, 1, manifest_hash(1)) == []
