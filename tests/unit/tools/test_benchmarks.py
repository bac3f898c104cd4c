"""Tests of the benchmark tools: rows and best peers, intervals, which results may be stored together, and tables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import intervals, pages, results
from benchmarks.rows import Reach
from benchmarks.table import judged, table
from benchmarks.timing import Plan
from tests.support.benchmarks import row


def comparison(name: str, **changes: Any) -> dict[str, Any]:
    peer = {"name": "b", "value": 80.0, "difference": -1.0, "low": -2.0, "high": 0.5, "worse": False, **changes}
    return {"name": name, "about": "texts", "ours": 79.0, "peers": [peer]}


def test_a_row_compares_medians_and_keeps_the_range() -> None:
    record = row(reach=Reach("≥", 1.25, "ratio"), limit=0.625).record()
    assert (record["ours"], record["ours_range"], record["runs"]) == (10, [9, 20], 3)
    assert (record["ratio"], record["limit"], record["reach"], record["reached"]) == (1.25, 0.625, "≥ 1.25 ×", True)
    assert [(peer["name"], peer["value"], peer["ratio"]) for peer in record["peers"]] == [("b", 8, 1.25), ("a", 4, 2.5)]


@pytest.mark.parametrize(("unit", "best", "ratio"), [("texts/s", "b", 1.25), ("ms", "a", 2.5), ("s", "a", 2.5)])
def test_the_best_peer_leads_by_the_direction_of_the_unit(unit: str, best: str, ratio: float) -> None:
    record = row(unit=unit).record()
    assert (record["peers"][0]["name"], record["ratio"]) == (best, ratio)


@pytest.mark.parametrize(
    ("reach", "reached"),
    [(Reach("≤", 10), True), (Reach("≥", 11), False), (Reach("≥", 1.3, "ratio"), False), (None, None)],
)
def test_a_target_is_of_our_own_value_or_of_the_ratio_to_the_best_peer(
    reach: Reach | None, reached: bool | None
) -> None:
    assert row(reach=reach).reached is reached


@pytest.mark.parametrize(("worse", "verdict"), [(False, "reached"), (True, "not reached")])
def test_a_rate_at_a_worse_accuracy_is_not_reached(worse: bool, verdict: str) -> None:
    record = row(reach=Reach("≥", 1, "ratio"), accuracy="mine").record()
    others = [comparison("another", worse=True), comparison("mine", worse=worse)]
    [found] = judged([record], others)
    assert (found["verdict"], found["compared"]["name"]) == (verdict, "mine")


@pytest.mark.parametrize(
    ("bound", "accuracy", "verdict"),
    [
        (1, "mine", "accuracy not measured"),
        (2, "mine", "not reached"),
        (1, None, "reached"),
        (2, None, "not reached"),
        (None, "mine", None),
    ],
)
def test_a_rate_without_its_accuracy_is_not_reached(
    bound: int | None, accuracy: str | None, verdict: str | None
) -> None:
    record = row(reach=None if bound is None else Reach("≥", bound, "ratio"), accuracy=accuracy).record()
    [found] = judged([record], [comparison("another")])
    assert found["verdict"] == verdict
    assert (verdict or "–") in table([record])
    assert (f": {verdict} |" in pages.rendered({**FACTS, "rows": [record], "accuracy": []})) == (verdict is not None)


def test_the_interval_is_paired_by_text() -> None:
    right = np.random.default_rng(0).random((1, 400)) < 0.5
    worse = right.copy()
    worse[0, np.flatnonzero(right[0])[:8]] = False  # 8 of 400 texts: 2 points, σ = √8 / 400 = 0.7 if paired, else 3.5
    low, high = intervals.interval(worse, right)
    assert -3.9 < low < -2.8
    assert -1.2 < high < -0.4


def test_the_interval_has_the_chance_of_the_seeds() -> None:
    ours, peer = np.zeros((3, 100), bool), np.zeros((3, 100), bool)
    ours[0], peer[:, :33] = True, True  # means 33.3 and 33.0: one of our seeds is always right, the others never
    low, high = intervals.interval(ours, peer)
    assert low < -20  # (2/3)³ of the draws have no good seed
    assert high > 50


def test_runs_alternate(tmp_path: Path) -> None:
    said: list[str] = []

    def works(name: str) -> dict[str, float]:
        said.append(name)
        return {"s": float(len(said))}

    ours, peer = Plan(tmp_path).alternate(lambda: works("ours"), lambda: works("peer"), rounds=5)
    assert said == ["ours", "peer"] * 5
    assert (ours["s"].runs, peer["s"].median) == ((1, 3, 5, 7, 9), 6)


FACTS: dict[str, Any] = {"machine": "m", "commit": "1", "corpus": {"titles": "t"}, "date": "2026-11-23", "versions": {}}
ORDER = ("a", "b", "a accuracy")


def found(*works: str) -> dict[str, Any]:
    return {"rows": [{"work": work} for work in works], "settings": {"batch": 1}, "seconds": 2}


def works_of(path: Path) -> list[str]:
    return [entry["work"] for entry in json.loads(path.read_text())["rows"]]


@pytest.mark.parametrize("change", [{"commit": "2"}, {"corpus": {"titles": "u"}}, {"machine": "n"}])
def test_results_of_another_commit_corpus_or_machine_are_not_mixed(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "m.json"
    results.store(path, FACTS, "a", found("a1"), ORDER)
    other = {**FACTS, **change}
    shared = {name: other[name] for name in results.SHARED}
    assert results.mismatch(path, {name: FACTS[name] for name in results.SHARED}) is None
    assert f"m.json holds results of {next(iter(change))}" in str(results.mismatch(path, shared))
    results.store(path, other, "b", found("b1"), ORDER)
    assert works_of(path) == ["b1"]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_page_shows_the_stored_results() -> None:
    block = pages.BLOCK.search(pages.PAGE.read_text(encoding="utf-8"))
    assert block is not None
    facts = results.load(results.RESULTS / block[1]) if block[1] else None
    assert block[2] == pages.rendered(facts)
