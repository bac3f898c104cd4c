"""Tests of what the drill plans, where it stops a command, and what it counts as observed and as a loss."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tests.drill import faults, place, shop_faults
from tests.drill.checks import Lost, Reached, after_fault, measure, reached, row_losses
from tests.drill.faults import FAULTS, SIGNALS, Fault, Injection, newest, signalled, spoil
from tests.drill.place import Ended, Place, Running, state_of
from tests.drill.plan import Results, plan
from tests.drill.shop import Window, move_worktrees, spread
from tests.drill.standing import in_use, lost, model_hash, settled, standing, whole_runs
from tests.drill.stepper import git_step
from tests.drill.trial import Trial, recover

LOCK_INVALID = "'./dvc.lock' is invalid.\n\nWhile scanning a quoted scalar"
STEPPER = Path(__file__).parents[2] / "drill" / "stepper.py"
WEIGHTED = [Fault("often", lambda *_: Injection("", True), 90), Fault("rare", lambda *_: Injection("", True), 1)]
KINDS = [*WEIGHTED, *(Fault(f"{n}", lambda *_: Injection("", True), percent=n) for n in (5, 8))]

# Plan and results.


def test_each_kind_has_its_percentage_and_the_others_are_drawn_by_weight() -> None:
    counts = Counter(each.fault.name for each in plan(KINDS, 100, 0))
    assert (counts["5"], counts["8"], counts["often"] + counts["rare"]) == (5, 8, 87)
    assert counts["often"] > 70 and counts["rare"] >= 1
    assert plan(KINDS, 100, 3) == plan(KINDS, 100, 3) != plan(KINDS, 100, 4)
    assert Counter(each.fault.name for each in plan(KINDS[2:], 20, 0)).total() == 20


def test_turns_go_on_from_seed_to_seed() -> None:
    planned = [each for seed in (0, 1, 2) for each in plan(KINDS, 100, seed)]
    assert [each.turn for each in planned if each.fault.name == "8"] == list(range(24))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 16, 54])
def test_every_step_has_a_turn_and_few_turns_are_far_apart(count: int) -> None:
    assert {spread(turn, count) for turn in range(count)} == set(range(1, count + 1))
    early = sorted(spread(turn, count) for turn in range(5))
    if count > 10:
        assert min(later - step for step, later in pairwise(early)) > count // 20


def test_a_drill_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    file, planned = tmp_path / "new" / "drill.jsonl", plan(KINDS, 20, 4)
    first = Results("c1", "20", file)
    for each in planned[:15]:
        first.append(4, Trial(each.number, each.fault.name, "détail", ("a loss",), True, False, 30.0, Lost(1, 0.5)))
    with file.open("a") as lines:
        lines.write('\n{"commit": "c1", "pl')
    assert Results("c1", "20", file).left(planned) == planned[15:]
    for other in (Results("c2", "20", file), Results("c1", "20 x", file), Results("c1-dirty", "20", file)):
        assert other.left(planned) == planned


# Steps of a command.

MODULE = """
import ctypes, subprocess
from pathlib import Path
ctypes.CDLL(None).renameat2
Path("a").write_text("x")
Path("a").replace("b")
Path("folder").mkdir(exist_ok=True)
Path("folder").mkdir(exist_ok=True)
Path("c").unlink(missing_ok=True)
Path("data/local/incoming/x.csv").read_text()
Path("b").read_text()
subprocess.run(["git", "-C", ".", "-c", "a.b=c", "rev-parse", "HEAD"], capture_output=True)
subprocess.run(["git", "update-index", "x"], capture_output=True)
Path("b").unlink()
"""
READ = "read data/local/incoming/x.csv"
STEPS = ["renameat2", "write a", "rename a b", "mkdir folder", READ, "git update-index", "remove b"]


@pytest.mark.parametrize(("begin", "at"), [(".", 0), ("^rename ", 3)])
def test_a_command_stops_before_a_step_that_changes_something_and_goes_on(tmp_path: Path, begin: str, at: int) -> None:
    (tmp_path / "data/local/incoming").mkdir(parents=True)
    (tmp_path / "data/local/incoming/x.csv").touch()
    (tmp_path / "work.py").write_text(MODULE)
    command = [sys.executable, str(STEPPER), str(tmp_path / "log"), begin, str(at), "work"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "out").open("wb") as out:
        running = Running(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=out), tmp_path / "out")
    if at:
        assert running.until(lambda: state_of(running.child.pid) == "T")
        assert (tmp_path / "folder").exists() and (tmp_path / "b").exists()
        running.send(signal.SIGCONT)
    assert running.wait().code == 0
    wanted = STEPS[2:] if at else STEPS
    steps = (tmp_path / "log").read_text().splitlines()
    assert steps == [f"{number} {step}" for number, step in enumerate(wanted, 1)]


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("git -C /x -c a=b commit-tree t", "git commit-tree"),
        ("/usr/bin/git worktree add p", "git worktree"),
        ("git worktree list --porcelain", ""),
        ("git show x", ""),
        ("python git update-ref", ""),
    ],
)
def test_a_git_command_is_a_step_if_it_changes_something(words: str, step: str) -> None:
    assert git_step(words.split()) == step


def test_a_window_counts_the_steps_from_its_first_to_its_last() -> None:
    seen = ["write lock", "read in/a", "rename in/a in/taken/a", "write other", "rename in/b in/taken/b", "git tag"]
    assert [Window("in/").count(seen), Window("in/", last="taken/").count(seen)] == [5, 4]
    with pytest.raises(ValueError, match="no step"):
        Window("git", last="taken/").count(seen)


# Verdicts on commands.


class Scripted(Place):
    """Place of an empty repository with one stage; a command is a bash script."""

    def __init__(self, folder: Path, script: str) -> None:
        super().__init__(folder / "bench", "", mounted=False)
        self.script, self.reference = script, SimpleNamespace(seconds={"x": 0.1}, outs=lambda _: ["x"])
        self.repo.mkdir()

    def any_stage(self, rng: random.Random) -> str:
        return "x"

    def forget(self, stages: list[str]) -> None:
        """Forget nothing."""

    def stage(self, name: str) -> Running:
        return self.start("bash", "-c", self.script)


ALIVE = [row for row in SIGNALS if row.name in {"kill -9 of a stage alone", "SIGTERM to a stage"}]


@pytest.mark.parametrize("row", ALIVE, ids=lambda row: row.name)
@pytest.mark.parametrize(("script", "observed"), [("exec sleep 30", True), ("true", False), ("exit 75", False)])
def test_a_signal_is_observed_if_it_ended_a_live_command(tmp_path: Path, row: Any, script: str, observed: bool) -> None:
    bench = Scripted(tmp_path, script)
    if not observed:  # the command has ended before
        bench.stage = lambda _: (running := Place.start(bench, "bash", "-c", script), running.child.wait())[0]  # type: ignore[assignment]
    found = signalled(row, bench, random.Random(3))  # type: ignore[arg-type]
    assert found.observed is observed
    assert not after_fault(bench, found.ended, found.codes) or script == "exit 75"


def test_a_command_that_hangs_or_leaves_a_process_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "GRACE", 0.5)
    monkeypatch.setattr(place, "LIMIT", 0.5)
    bench = Scripted(tmp_path, "")
    ended = bench.start(
        "bash", "-c", "setsid sleep 30 & echo Traceback '(most recent call last)'; exec sleep 31"
    ).wait()
    losses = after_fault(bench, ended, {0})
    assert [loss.partition(":")[0] for loss in losses[:2]] == ["orphan", "the command hung"]
    assert len(after_fault(bench, Ended(3, "Traceback (most recent call last)"), {0})) == 2  # code and traceback


def recovered(tmp_path: Path, *runs: Ended, repair: Ended = Ended(0, ""), by: str = "dvc") -> tuple[list[str], bool]:  # noqa: B008
    """Return the losses of a recovery in which `dvc repro` ends as `runs`, and whether `make repair` was needed."""
    bench: Any = Scripted(tmp_path, "")
    left = iter(runs)
    bench.dvc = lambda: SimpleNamespace(wait=lambda: next(left))
    bench.repair = lambda: SimpleNamespace(wait=lambda: repair)
    return recover(bench, by)[1:]


def test_a_refusal_that_names_what_make_repair_repairs_is_no_loss(tmp_path: Path) -> None:
    assert recovered(tmp_path, Ended(255, LOCK_INVALID), Ended(0, "")) == ([], True)


def test_a_first_run_that_succeeds_needs_no_make_repair(tmp_path: Path) -> None:
    assert recovered(tmp_path, Ended(0, ""), repair=Ended(1, "")) == ([], False)


@pytest.mark.parametrize(
    ("first", "loss"),
    [
        (Ended(1, LOCK_INVALID), "the first run: exit code 1 instead of [255]"),
        (Ended(-9, LOCK_INVALID, hung=True), "the first run: the command hung"),
        (Ended(255, "ERROR: unexpected error - no such file"), "not for what `make repair` repairs"),
        (Ended(255, f"Traceback (most recent call last)\n{LOCK_INVALID}"), "the first run: a traceback"),
    ],
)
def test_a_first_run_that_fails_in_any_other_way_is_a_loss(tmp_path: Path, first: Ended, loss: str) -> None:
    [found], mended = recovered(tmp_path, first, Ended(0, ""))
    assert loss in found and not mended


# Progress: a training has 60 steps in 4 epochs; the kill is at second 1,100.

EPOCH_2 = "x epoch 1/4 [##] loss 1\nx epoch 2/4 [##] loss 1\n"


def killed(said: str = EPOCH_2, writing: int = 0, finished: bool = False, **checkpoints: float) -> Reached:
    times = {int(name[1:]): at for name, at in checkpoints.items()}
    return Reached(1000.0, 1100.0, said, times, writing, finished)


@pytest.mark.parametrize(
    ("before", "said", "steps", "losses"),
    [
        (killed(s34=1097.0, s35=1099.0), "x: resuming from step 35 of 60", 0, 0),
        (killed(writing=36, s34=1097.0, s35=1099.0), "x: resuming from step 35 of 60", 1, 0),
        (killed(s34=1097.0, s35=1099.0), "x: resuming from step 33 of 60", 2, 1),
        (killed(), "x: resuming from step 25 of 60", 5, 1),  # from the printed epochs: half of 60
        (killed(s35=1099.0), "x epoch 1/4", 35, 1),
        (killed(s30=1050.0, s35=1099.0), "x: resuming from step 35 of 60", 0, 1),  # checkpoints too far apart
        (killed("x epoch 1/4 [#]"), "x epoch 1/4 [#]", 0, 1),  # no checkpoint at all
        (killed(finished=True), "", 0, 0),
    ],
)
def test_more_than_a_step_lost_is_a_loss(before: Reached, said: str, steps: int, losses: int) -> None:
    found = measure(before, said)
    assert (found.steps, len(found.losses)) == (steps, losses)


def test_what_a_killed_training_reached_is_read_from_its_state(tmp_path: Path) -> None:
    for name in ("step-00000007", "step-00000008", ".step-00000009.0a1b2c3d"):
        (tmp_path / "f" / name).mkdir(parents=True)
        (tmp_path / "f" / name / "state.json").touch()
    found = reached(tmp_path, [tmp_path / "model"], 1.0, 2.0, "said")
    assert (sorted(found.checkpoints), found.writing, found.finished) == ([7, 8], 9, False)
    (tmp_path / "f" / "seed-0.json").touch()
    assert reached(tmp_path, [tmp_path / "model"], 1.0, 2.0, "").finished


def test_the_newest_checkpoint_is_damaged_and_a_damaged_file_differs(tmp_path: Path) -> None:
    for name in ("a/step-1/s", "a/step-2/s", "a/.step-3.x/s", "b/step-1/s", "b/seed-0.json", "b.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("abcdef")
    found = newest(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/step-2/s", "b/seed-0.json", "b/step-1/s"]
    for seed, path in enumerate(found):
        assert spoil(path, random.Random(seed))[1]
        assert path.stat().st_atime_ns == faults.NEVER
        assert path.read_text(errors="replace") != "abcdef"


# Rows, runs and champions.


def git(repo: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", *names, *arguments], cwd=repo, check=True, capture_output=True)


def digest(number: int) -> str:
    return sha256(manifest(number).encode()).hexdigest()


def manifest(number: int) -> str:
    return json.dumps({"sha256": {"weights": sha256(f"weights {number}".encode()).hexdigest()}})


def point(repo: Path, number: int) -> None:
    (repo / "runs/champion").unlink(missing_ok=True)
    (repo / "runs/champion").symlink_to(f"r{number}")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository with champion 2 in use and champion 1 before it."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet")
    (repo / ".gitignore").write_text("/runs/\n/data/\n/champion.json\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "start")
    git(repo, "checkout", "--quiet", "-b", "champion")
    for number in (1, 2):
        model = repo / "runs" / f"r{number}" / "model"
        model.mkdir(parents=True)
        (model / "weights").write_text(f"weights {number}")
        (model / "manifest.json").write_text(manifest(number))
        (model.parent / "summary.json").write_text(json.dumps({"name": f"r{number}"}))
        (model.parent / "report.html").touch()
        entry = {"number": number, "run": f"r{number}", "hashes": {"model": digest(number)}}
        (repo / "champion.json").write_text(json.dumps(entry))
        git(repo, "add", "--force", "champion.json")
        git(repo, "commit", "--quiet", "-m", str(number))
        git(repo, "tag", f"champion@v{number}.0.0")
    git(repo, "checkout", "--quiet", "--detach")
    point(repo, 2)
    return repo


def test_a_repository_that_nothing_happened_to_has_no_losses(repo: Path) -> None:
    assert lost(repo, standing(repo)) == settled(repo, 2, digest(2)) == whole_runs(repo, ["r1", "r2"]) == []


def test_what_is_gone_or_changed_is_lost(repo: Path) -> None:
    before = standing(repo)
    (repo / "runs/r1/report.html").unlink()
    (repo / "runs/r2/summary.json").write_text('{"name": "r1"}')
    (repo / "runs/r2/reference.json").write_text("{}")  # an added file is not a loss
    git(repo, "tag", "--force", "champion@v1.0.0", "champion@v2.0.0")
    (repo / ".gitignore").write_text("x\n")
    names = ["run changed: runs/r1/report.html", "run changed: runs/r2/summary.json"]
    assert lost(repo, before)[:-1] == [*names, "tag moved: refs/tags/champion@v1.0.0"]
    assert "the user's commit or changes differ" in lost(repo, before)[-1]
    assert settled(repo) == ["no champion 1"]
    assert whole_runs(repo, ["r1", "r2"]) == ["runs/r1 is not whole", "runs/r2 is not whole"]
    assert whole_runs(repo, ["r1", "r1"]) == ["two runs with one name: r1, r1"]


def test_the_link_the_branch_and_the_tags_name_the_expected_champion(repo: Path) -> None:
    expected = ["champion 2 instead of 3", f"the champion's model is {digest(2)[:8]} instead of {digest(1)[:8]}"]
    assert settled(repo, 3, digest(1)) == expected
    point(repo, 1)
    link = ["runs/champion does not point to r2", f"runs/champion/model is {digest(1)[:8]}"]
    assert settled(repo) == link
    git(repo, "tag", "--force", "champion@v2.0.0", "champion@v1.0.0")
    assert "the branch champion is not at the tag of champion 2" in settled(repo)
    (repo / "runs/champion").unlink()
    assert "runs/champion leads nowhere" in settled(repo)
    for path in (repo / ".git/objects").glob("??/*"):
        path.unlink()
    assert settled(repo) == ["the branch champion has no champion.json"]


def test_a_model_is_whole_if_every_file_of_its_manifest_is(repo: Path) -> None:
    model = repo / "runs/r2/model"
    assert model_hash(model) == digest(2)
    assert in_use(repo, {digest(1), digest(2)}) == []
    (model / "weights").write_text("other")
    assert in_use(repo, {digest(1), digest(2)}) == ["runs/champion/model is not whole"]


def test_rows_are_there_once() -> None:
    assert row_losses(["a", "b"], ["c"], ["a", "b", "c"]) == []
    assert row_losses(["a", "b"], ["c", "d"], ["a", "c", "c"]) == [
        "1 rows that arrived are lost",
        "1 rows are gone from the data set",
        "1 texts were taken twice",
    ]


def test_rows_that_stay_in_the_inbox_are_a_loss(repo: Path) -> None:
    for name in ("b.csv", ".c.csv", "working/d.csv", "taken/e.csv"):
        path = repo / "data/local/incoming" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ended = SimpleNamespace(wait=lambda: Ended(0, ""))
    bench: Any = SimpleNamespace(
        repo=repo, before=standing(repo), known=lambda: ["a"], retrain=lambda: ended, orphans=list
    )
    assert shop_faults.taken(bench, [pl.DataFrame({"review": ["b"]})]) == [
        "1 rows that arrived are lost",
        "still in the inbox: .c.csv",
        "still in the inbox: b.csv",
        "still in the inbox: working/d.csv",
    ]


def test_worktrees_of_a_copy_are_its_own(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "--detach", ".epigram/workspaces/w")
    shutil.copytree(repo, tmp_path / "copy", symlinks=True)
    move_worktrees(tmp_path / "copy", repo)
    shutil.rmtree(repo)
    git(tmp_path / "copy/.epigram/workspaces/w", "status")
    assert str(tmp_path / "copy") in (tmp_path / "copy/.git/worktrees/w/gitdir").read_text()


def test_a_clock_that_did_not_change_is_not_observed() -> None:
    shown = SimpleNamespace(wait=lambda: Ended(0, f"{time.time()}\n"))
    bench: Any = SimpleNamespace(undo=lambda _: "x", start=lambda *_, **__: shown, dvc=lambda **_: shown)
    assert not faults.clock_back(bench, random.Random(0)).observed


def test_every_fault_has_its_own_name() -> None:
    names = [fault.name for fault in [*FAULTS, *shop_faults.SHOP_FAULTS]]
    assert len(set(names)) == len(names) == 49
