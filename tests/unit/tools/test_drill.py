"""Tests of what the drill plans, and what it counts as observed and as a loss."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.drill import faults, place
from tests.drill.checks import Lost, Reached, after_fault, measure, reached
from tests.drill.faults import FAULTS, SIGNALS, Fault, Injection, newest, signalled, spoil
from tests.drill.place import Ended, Place, Running
from tests.drill.plan import Results, plan
from tests.drill.trial import Trial, recover

LOCK_INVALID = "'./dvc.lock' is invalid.\n\nWhile scanning a quoted scalar"
KINDS = [Fault("often", lambda *_: Injection("", True), 90), Fault("rare", lambda *_: Injection("", True), 1)]

# Plan and results.


def test_each_kind_occurs_before_any_is_drawn_again_by_weight() -> None:
    counts = Counter(each.fault.name for each in plan(KINDS, 100, 0))
    assert counts.total() == 100 and counts["often"] > 70 and counts["rare"] >= 1
    assert plan(KINDS, 100, 3) == plan(KINDS, 100, 3) != plan(KINDS, 100, 4)


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


def test_a_clock_that_did_not_change_is_not_observed() -> None:
    shown = SimpleNamespace(wait=lambda: Ended(0, f"{time.time()}\n"))
    bench: Any = SimpleNamespace(undo=lambda _: "x", start=lambda *_, **__: shown, dvc=lambda **_: shown)
    assert not faults.clock_back(bench, random.Random(0)).observed


def test_every_fault_has_its_own_name() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) == 39
