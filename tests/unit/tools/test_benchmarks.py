"""The benchmarks: every family runs with --tiny, and known answers of their ratios, verdicts and intervals."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import intervals, minilm, pages, results
from benchmarks.rows import Measured, Reach, Row
from benchmarks.run import FAMILIES
from benchmarks.scale import Point, fit, grid
from benchmarks.table import judged
from tests.support.tiny_bert import write_bert

ROOT = Path(__file__).parents[3]
OTHERS = ("scale", "pos_growth", "few_labels", "few_rows", "many_titles")  # programs of their own
SLOW, FAST = Measured((2.0, 4.0, 5.0)), Measured((7.0, 8.0, 9.0))


def tiny(*program: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark without the mirror of real data sets."""
    env = {name: value for name, value in os.environ.items() if name != "EPIGRAM_MIRROR"} | changes
    command = [sys.executable, "-m", *program, "--tiny"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.slow
@pytest.mark.extended
def test_every_family_runs_or_names_what_it_needs(tmp_path: Path) -> None:
    """A small checkpoint stands for MiniLM."""
    checkpoint = write_bert(tmp_path / "bert", ("the", "a", "film"), positions=minilm.LENGTH)
    done = tiny("benchmarks.run", EPIGRAM_CHECKPOINT=str(checkpoint))
    assert done.returncode == 0, done.stderr
    told = {line.partition(":")[0]: line for line in done.stderr.splitlines()}
    assert told.keys() >= set(FAMILIES)
    assert all("skipped" in told[name] or told[name].endswith(" s") for name in FAMILIES)
    skipped = {name for name in FAMILIES if "skipped" in told[name]}
    assert skipped <= {"finetune"}, done.stderr


@pytest.mark.extended
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_benchmark_runs(name: str) -> None:
    done = tiny(f"benchmarks.{name}")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def row(**changes: Any) -> Row:
    values = {"work": "w", "unit": "texts/s", "ours": Measured((9.0, 10.0, 20.0)), "peers": {"a": SLOW, "b": FAST}}
    return Row(**{**values, **changes})


def test_a_row_compares_medians_and_keeps_the_range() -> None:
    record = row(reach=Reach("≥", 1.25, "ratio"), limit=0.625).record()
    assert (record["ours"], record["ours_range"], record["runs"]) == (10, [9, 20], 3)
    assert (record["ratio"], record["limit"], record["reach"], record["reached"]) == (1.25, 0.625, "≥ 1.25 ×", True)
    assert [(peer["name"], peer["value"], peer["ratio"]) for peer in record["peers"]] == [("b", 8, 1.25), ("a", 4, 2.5)]


@pytest.mark.parametrize(("unit", "best", "ratio"), [("texts/s", "b", 1.25), ("ms", "a", 2.5), ("s", "a", 2.5)])
def test_the_best_peer_leads_by_the_direction_of_the_unit(unit: str, best: str, ratio: float) -> None:
    record = row(unit=unit).record()
    assert (record["peers"][0]["name"], record["ratio"]) == (best, ratio)


def comparison(name: str, **changes: Any) -> dict[str, Any]:
    peer = {"name": "b", "value": 80.0, "difference": -1.0, "low": -2.0, "high": 0.5, "worse": False, **changes}
    return {"name": name, "about": "texts", "ours": 79.0, "peers": [peer]}


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


def points() -> list[Point]:
    bare = [Point("x", *point, seconds=0.0) for point in grid(tiny=False)]
    return [replace(p, seconds=1e-6 * p.rows * p.classes**0.25 * p.length**1.5) for p in bare]


def test_exact_points_are_fitted_without_error() -> None:
    exponents, error = fit(points())
    np.testing.assert_allclose(exponents, [1.0, 0.25, 1.5], atol=1e-9)
    assert error == pytest.approx(0.0, abs=1e-9)


def test_the_page_shows_the_stored_results() -> None:
    block = pages.BLOCK.search(pages.PAGE.read_text(encoding="utf-8"))
    assert block is not None
    facts = results.load(results.RESULTS / block[1]) if block[1] else None
    assert block[2] == pages.rendered(facts)
