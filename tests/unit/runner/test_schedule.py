"""Tests of the order in which stages start: remaining paths, and slots for those that come first."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.scheduling import slots as slots_module
from epigram.runner.scheduling.slots import Schedule, Slots, remaining_stages
from tests.support.processes import until

# a → b → report, a → slow → late → report, and examine, which nothing but the report needs
NEEDS = {"a": [], "examine": [], "b": ["a"], "slow": ["a"], "late": ["slow"], "report": ["b", "late", "examine"]}
HANDOVER = 60.0


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


def test_the_remaining_path_is_the_one_with_most_stages_to_run() -> None:
    assert remaining_stages(graph()) == {"a": 4, "examine": 2, "b": 2, "slow": 3, "late": 2, "report": 1}
    assert Schedule(graph()).names == ["a", "slow", "examine", "b", "late", "report"]
    assert remaining_stages(graph(NEEDS, "a", "slow", "late"))["a"] == 2, "b and report are left"


def test_equal_stages_start_in_the_order_of_the_graph() -> None:
    needs: dict[str, list[str]] = {"z": [], "m": [], "a": []}
    assert Schedule(graph(needs)).names == ["z", "m", "a"]


def test_a_stage_can_start_after_its_last_dependency() -> None:
    schedule = Schedule(graph(NEEDS, "examine"))  # examine is up to date
    assert schedule.ready() == ["a"]
    assert schedule.finish("a") == ["b", "slow"]
    assert schedule.finish("b") == []
    assert schedule.finish("slow") == ["late"]
    assert schedule.finish("late") == ["report"]


@pytest.mark.parametrize("names", [["examine", "b", "slow"], ["slow", "b", "examine"]])
def test_of_the_waiting_stages_the_one_with_the_longest_path_starts_first(names: list[str]) -> None:
    assert order(Slots(1, schedule=Schedule(graph())), names) == ["slow", "examine", "b"]


def test_a_stage_that_does_not_fit_holds_up_none_that_does() -> None:
    needs: dict[str, list[str]] = {"long": [], "train@bert": [], "train@svm": []}
    slots = Slots(2, {"bert": 2}, Schedule(graph(needs)))
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
    slots, began = Slots(1, schedule=Schedule(graph())), []

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
    needs: dict[str, list[str]] = {"short": [], "long": [], "after": ["long"]}
    slots, began = Slots(1, schedule=Schedule(graph(needs))), []

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
    slots, started = Slots(1, schedule=Schedule(graph())), time.monotonic()
    with slots.acquire("a"):
        slots.finish("a")
    with slots.acquire("examine"):  # slow and b never come
        assert 0.5 <= time.monotonic() - started < HANDOVER


def test_no_slot_is_kept_after_a_failure() -> None:
    slots, started = Slots(1, schedule=Schedule(graph())), time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(slots.acquire("a"))
    with slots.acquire("examine"):
        assert time.monotonic() - started < HANDOVER / 2
