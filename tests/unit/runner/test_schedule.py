"""Tests of the order in which stages start: remaining paths, expected seconds, and slots for those that come first."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.scheduling import slots as slots_module
from epigram.runner.scheduling.slots import START, Schedule, Slots, expected_seconds, remaining_seconds
from tests.support.processes import until

# a → b → report, a → slow → report, and examine, which nothing but the report needs
NEEDS = {"a": [], "examine": [], "b": ["a"], "slow": ["a"], "report": ["b", "slow", "examine"]}
HANDOVER = 60.0
SECONDS = {"a": 1.0, "examine": 3.0, "b": 2.0, "slow": 9.0, "report": 1.0}


@pytest.fixture(autouse=True)
def long_handover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep slots for longer than a thread takes to start on a busy machine."""
    monkeypatch.setattr(slots_module, "HANDOVER", HANDOVER)


def graph(needs: Mapping[str, list[str]] = NEEDS, *current: str) -> Graph:
    return Graph({name: Stage(name, frozenset(each)) for name, each in needs.items()}, frozenset(current))


def order(slots: Slots, names: list[str]) -> list[str]:
    """Return the order in which waiting stages get the slots, which are taken until all of them wait."""
    began: list[str] = []

    def work(name: str) -> None:
        with slots.acquire(name):
            began.append(name)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
    with slots.acquire("a"):
        for thread in threads:
            thread.start()
        until(lambda: slots._waiting == set(names))
    for thread in threads:
        thread.join(60)
    return began


def write_run(runs: Path, name: str, dataset: str, age: float, **stages: tuple[str, float]) -> None:
    """Write the summary of a run that is `age` seconds old; slow_b stands for slow@b."""
    shown = {stage.replace("_", "@"): {"state": state, "seconds": s} for stage, (state, s) in stages.items()}
    (runs / name).mkdir(parents=True)
    (runs / name / "summary.json").write_text(json.dumps({"dataset": dataset, "stages": shown}))
    os.utime(runs / name / "summary.json", (time.time() - age,) * 2)


def test_the_remaining_path_is_the_slowest_one_and_not_the_one_with_most_stages() -> None:
    remaining = remaining_seconds(graph(), SECONDS)
    assert remaining == {"a": 11.0, "examine": 4.0, "b": 3.0, "slow": 10.0, "report": 1.0}
    assert Schedule(graph(), SECONDS).names == ["a", "slow", "examine", "b", "report"]


def test_equal_stages_start_in_the_order_of_the_graph() -> None:
    needs: dict[str, list[str]] = {"z": [], "m": [], "a": []}
    assert Schedule(graph(needs), dict.fromkeys(needs, 1.0)).names == ["z", "m", "a"]


def test_a_stage_can_start_after_its_last_dependency() -> None:
    schedule = Schedule(graph(NEEDS, "examine"), SECONDS)  # examine is up to date
    assert schedule.ready() == ["a"]
    assert schedule.finish("a") == ["b", "slow"]
    assert schedule.finish("b") == []
    assert schedule.finish("slow") == ["report"]


@pytest.mark.parametrize("names", [["examine", "b", "slow"], ["slow", "b", "examine"]])
def test_of_the_waiting_stages_the_one_with_the_longest_path_starts_first(names: list[str]) -> None:
    assert order(Slots(1, schedule=Schedule(graph(), SECONDS)), names) == ["slow", "examine", "b"]


def test_a_stage_that_does_not_fit_holds_up_none_that_does() -> None:
    needs: dict[str, list[str]] = {"long": [], "train@bert": [], "train@svm": []}
    slots = Slots(2, {"bert": 2}, Schedule(graph(needs), {"long": 9.0, "train@bert": 8.0, "train@svm": 1.0}))
    began: list[str] = []

    def work(name: str) -> None:
        with slots.acquire(name):
            began.append(name)

    large, small = (threading.Thread(target=work, args=(f"train@{name}",), daemon=True) for name in ("bert", "svm"))
    with slots.acquire("long"):  # one slot is left
        large.start()
        until(lambda: slots._waiting == {"train@bert"})
        small.start()
        small.join(60)
        assert began == ["train@svm"]
    large.join(60)
    assert began == ["train@svm", "train@bert"]


def test_slots_are_kept_for_a_stage_that_has_become_ready() -> None:
    slots, began = Slots(1, schedule=Schedule(graph(), SECONDS)), []

    def work(name: str) -> None:
        with slots.acquire(name):
            began.append(name)

    other = threading.Thread(target=work, args=("examine",), daemon=True)
    with slots.acquire("a"):
        other.start()
        until(lambda: slots._waiting == {"examine"})
        slots.finish("a")
    time.sleep(0.2)  # the task of the next stage is not here yet
    work("slow")
    other.join(60)
    assert began == ["slow", "examine"]


def test_the_first_of_the_stages_that_can_start_at_once_is_waited_for() -> None:
    needs: dict[str, list[str]] = {"short": [], "long": []}
    slots, began = Slots(1, schedule=Schedule(graph(needs), {"short": 1.0, "long": 9.0})), []

    def work(name: str) -> None:
        with slots.acquire(name):
            began.append(name)

    early = threading.Thread(target=work, args=("short",), daemon=True)
    early.start()
    until(lambda: slots._waiting == {"short"})
    time.sleep(0.2)
    work("long")
    early.join(60)
    assert began == ["long", "short"]


def test_slots_are_kept_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "HANDOVER", 0.5)
    slots, started = Slots(1, schedule=Schedule(graph(), SECONDS)), time.monotonic()
    with slots.acquire("a"):
        slots.finish("a")
    with slots.acquire("examine"):  # slow and b never come
        assert 0.5 <= time.monotonic() - started < HANDOVER


def test_no_slot_is_kept_after_a_failure() -> None:
    slots, started = Slots(1, schedule=Schedule(graph(), SECONDS)), time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(slots.acquire("a"))
    with slots.acquire("examine"):
        assert time.monotonic() - started < HANDOVER / 2


def test_the_latest_run_on_the_data_set_that_executed_a_stage_counts(tmp_path: Path) -> None:
    write_run(tmp_path, "new", "mr", 10, a=("Cached", 0.0), b=("Completed", 5.0), slow=("Failed", 7.0))
    write_run(tmp_path, "old", "mr", 20, a=("Completed", 4.0), b=("Completed", 50.0), slow=("Completed", 8.0))
    write_run(tmp_path, "other", "ced", 0, a=("Completed", 1.0), b=("Completed", 1.0), report=("Completed", 99.0))
    (tmp_path / "latest").symlink_to("other")
    assert expected_seconds(graph(), tmp_path, "mr") == {
        "a": 4.0,
        "examine": START,
        "b": 5.0,
        "slow": 8.0,
        "report": START,
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"dataset": "mr", "stages": {"a": 3}}'])
def test_a_damaged_summary_is_ignored(text: str, tmp_path: Path) -> None:
    write_run(tmp_path, "old", "mr", 20, a=("Completed", 4.0))
    write_run(tmp_path, "new", "mr", 10)
    (tmp_path / "new" / "summary.json").write_text(text)
    assert expected_seconds(graph(), tmp_path, "mr")["a"] == 4.0


def test_a_stage_that_is_up_to_date_takes_no_time(tmp_path: Path) -> None:
    write_run(tmp_path, "old", "mr", 20, a=("Completed", 4.0))
    assert expected_seconds(graph(NEEDS, "a"), tmp_path, "mr")["a"] == 0.0
