"""Tests of the drill's plan, of the steps at which it stops a command, and of results kept between parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.drill import faults
from tests.drill.evidence import is_stopped
from tests.drill.faults import Fault, Injection
from tests.drill.plan import plan
from tests.drill.progress import Lost
from tests.drill.results import Results, minutes
from tests.drill.shop import Window
from tests.drill.shop_bench import spread
from tests.drill.stepper import git_step
from tests.drill.trial import Trial
from tests.support.drill_samples import eventually

STEPPER = Path(__file__).parents[2] / "drill" / "stepper.py"


def kind(name: str, weight: int = 0, percent: int = 0, *, mounts: bool = False) -> Fault:
    return Fault(name, lambda *_: Injection("", observed=True), weight, mounts, "", percent)


KINDS = [kind("often", 90), kind("rare", 1), kind("five", percent=5), kind("eight", percent=8)]


def names(*arguments: int, kinds: list[Fault] = KINDS) -> list[str]:
    return [each.fault.name for each in plan(kinds, *arguments, mounted=True)]


def test_each_kind_has_its_percentage_and_the_others_are_drawn_by_weight() -> None:
    counts = Counter(names(100, 0))
    assert (counts["five"], counts["eight"], counts["often"] + counts["rare"]) == (5, 8, 87)
    assert counts["often"] > 70 and counts["rare"] >= 1
    assert Counter(names(30, 0))["five"] == 2  # 1.5 rounded up


def test_the_same_seed_gives_the_same_plan_in_random_order() -> None:
    assert names(100, 3) == names(100, 3) != names(100, 4)
    assert {"five", "often"} <= set(names(100, 3)[:20]) & set(names(100, 3)[20:])  # 13 have a percentage
    assert len(names(1, 0)) == 1  # fewer than the kinds with a percentage


def test_kinds_that_have_a_percentage_fill_a_plan_of_their_own() -> None:
    assert Counter(names(20, 0, kinds=KINDS[2:])) == {"five": 10, "eight": 10}


def test_what_cannot_be_mounted_is_not_planned() -> None:
    kinds = [kind("disk", percent=5, mounts=True), kind("other", 1)]
    assert {each.fault.name for each in plan(kinds, 20, 0, mounted=False)} == {"other"}


def test_turns_go_on_from_seed_to_seed() -> None:
    planned = [each for seed in (0, 1, 2) for each in plan(KINDS, 100, seed, mounted=True)]
    assert [each.turn for each in planned if each.fault.name == "eight"] == list(range(24))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 16, 54])
def test_every_step_has_a_turn_and_few_turns_are_far_apart(count: int) -> None:
    assert {spread(turn, count) for turn in range(count)} == set(range(1, count + 1))
    early = sorted(spread(turn, count) for turn in range(5))
    if count > 10:
        assert min(later - step for step, later in pairwise(early)) > count // 20


# The stages form a chain a → b → c → d → e; x is independent.
CHAIN = {"a": set(), "b": {"a"}, "x": set(), "c": {"b"}, "d": {"c"}, "e": {"d"}}


@pytest.mark.parametrize(("share", "stages"), [(0.0, {"a", "b", "c"}), (1.0, {"a", "b", "c", "d", "e"})])
def test_under_dvc_a_few_stages_are_undone(monkeypatch: pytest.MonkeyPatch, share: float, stages: set[str]) -> None:
    from random import Random
    from types import SimpleNamespace

    forgotten: list[set[str]] = []
    reference = SimpleNamespace(needs=CHAIN, after=lambda _: {"a", "b", "c", "d", "e"})
    bench = SimpleNamespace(reference=reference, forget=lambda each, **_: forgotten.append(each))
    monkeypatch.setattr(faults, "any_stage", lambda *_: "a")
    monkeypatch.setattr(faults, "ALL", share)
    assert faults.undone(bench, Random(0)) == "a"  # type: ignore[arg-type]
    assert forgotten == [stages]


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
STEPS = [
    "renameat2",
    "write a",
    "rename a b",
    "mkdir folder",
    "read data/local/incoming/x.csv",
    "git update-index",
    "remove b",
]


def stepper(folder: Path, begin: str, at: int) -> tuple[subprocess.Popen[bytes], Path]:
    (folder / "data/local/incoming").mkdir(parents=True)
    (folder / "data/local/incoming/x.csv").touch()
    (folder / "work.py").write_text(MODULE)
    command = [sys.executable, str(STEPPER), str(folder / "log"), begin, str(at), "work"]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}), folder / "log"


def test_the_steps_of_a_command_are_those_that_change_something(tmp_path: Path) -> None:
    child, log = stepper(tmp_path, ".", 0)
    assert child.wait(20) == 0
    assert log.read_text().splitlines() == [f"{number} {step}" for number, step in enumerate(STEPS, 1)]


def test_a_command_stops_before_a_step_and_goes_on(tmp_path: Path) -> None:
    child, log = stepper(tmp_path, "^rename ", 3)
    assert eventually(lambda: is_stopped(child.pid), 20.0)
    assert log.read_text().splitlines() == ["1 rename a b", "2 mkdir folder", "3 read data/local/incoming/x.csv"]
    assert (tmp_path / "folder").exists() and (tmp_path / "b").exists()
    child.send_signal(signal.SIGCONT)
    assert child.wait(20) == 0
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("git -C /x -c a=b commit-tree t", "git commit-tree"),
        ("/usr/bin/git worktree add p", "git worktree"),
        ("git worktree list --porcelain", ""),
        ("git show x", ""),
        ("git --version", ""),
        ("python git update-ref", ""),
    ],
)
def test_a_git_command_is_a_step_if_it_changes_something(words: str, step: str) -> None:
    assert git_step(words.split()) == step


SEEN = ["write lock", "read in/a", "rename in/a in/taken/a", "write other", "rename in/b in/taken/b", "git tag"]


def test_a_window_counts_the_steps_from_its_first_to_its_last() -> None:
    assert Window("in/").count(SEEN) == 5
    assert Window("in/", last="taken/").count(SEEN) == 2
    assert Window("in/", last="taken/", final=True).count(SEEN) == 4
    for window in (Window("out/"), Window("git", last="taken/")):
        with pytest.raises(ValueError, match="no step"):
            window.count(SEEN)


# Results.


def trial(number: int, fault: str = "five", *losses: str) -> Trial:
    return Trial(number, fault, "détail", losses, True, mended=False, seconds=30.0, lost=Lost(1, 0.5, ("x",)))


def test_a_drill_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    file, planned = tmp_path / "new" / "drill.jsonl", plan(KINDS, 20, 4, mounted=True)
    first = Results("c1", "20", file)
    for each in planned[:15]:
        first.append(4, trial(each.number, each.fault.name, "a loss"))
    with file.open("a") as lines:
        lines.write('\n{"commit": "c1", "pl')
    again = Results("c1", "20", file)
    assert again.left(planned) == planned[15:]
    assert again.read()[0].trial == trial(1, planned[0].fault.name, "a loss")
    assert again.left(plan(KINDS, 20, 5, mounted=True)) == plan(KINDS, 20, 5, mounted=True)
    for other in (Results("c2", "20", file), Results("c1", "20 x", file)):
        assert other.left(planned) == planned


def test_a_result_after_a_line_that_was_cut_off_is_read(tmp_path: Path) -> None:
    file = tmp_path / "drill.jsonl"
    file.write_text('{"commit": "c1", "pl')
    results = Results("c1", "20", file)
    results.append(0, trial(1))
    assert [each.trial.number for each in results.read()] == [1]


def test_results_of_a_tree_with_changes_hold_for_one_part(tmp_path: Path) -> None:
    planned = plan(KINDS, 2, 0, mounted=True)
    first, second = (Results("c1-dirty", "2", tmp_path / "drill.jsonl") for _ in range(2))
    first.part, second.part = "1", "2"
    for each in planned:
        first.append(0, trial(each.number, each.fault.name))
    assert (first.left(planned), second.left(planned)) == ([], planned)
    assert second.read() == []


def test_the_minutes_are_those_of_all_parts(tmp_path: Path) -> None:
    file = tmp_path / "drill.jsonl"
    results = Results("c1", "20", file)
    for number in range(4):
        results.append(0, trial(number))
    lines = [json.loads(line) for line in file.read_text().splitlines() if line]
    for line, part, ended in zip(lines, "1122", (130.0, 190.0, 9030.0, 9010.0), strict=True):
        line.update(part=part, ended=ended)  # each took 30 s: from 100 to 190, and from 8980 to 9030
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert minutes(results.read()) == pytest.approx((90 + 50) / 60)
