"""The accuracy grid: what a tool is given and how its answer is scored, and known answers of its intervals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.accuracy_catalogue import Tool
from benchmarks.accuracy_cells import Cell
from benchmarks.accuracy_data import Corpus, disjoint_samples, sample, split_off_dev
from benchmarks.accuracy_experience import experience
from benchmarks.accuracy_grid import bits, grid_of
from benchmarks.accuracy_measure import measure
from benchmarks.accuracy_resamples import split_again
from benchmarks.accuracy_statistics import Difference, Draws, corrected, difference, draws, mean_draws
from benchmarks.accuracy_tables import verdicts

CELL = Cell("mr", 20, 0, "fake", 30)
TRAIN = pl.DataFrame({"text": [f"text {i}" for i in range(50)], "label": ["good", "bad"] * 25})
TEST = pl.DataFrame({"text": ["unseen 0", "unseen 1", "unseen 2"], "label": ["good", "SECRET", "good"]})
CORPUS = Corpus("en", TRAIN, TEST)


def tool(*arguments: str) -> Tool:
    return Tool("fake", "fake", "accuracy_tool", arguments, package="tests.support")


def measured(*arguments: str, final: bool = True) -> dict[str, Any]:
    return measure(CELL, tool(*arguments), CORPUS, sys.executable, final=final)


def test_a_tool_never_sees_the_labels_that_it_is_scored_on(tmp_path: Path) -> None:
    measured("copy", str(tmp_path / "seen"))
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    assert seen.startswith("['task.json', 'test.jsonl', 'train.jsonl']")
    assert "unseen 1" in seen and "SECRET" not in seen


def test_held_out_rows_reach_the_tool_without_their_labels(tmp_path: Path) -> None:
    train = TRAIN.with_columns(label=pl.format("label of {}", "text"))
    measure(CELL, tool("copy", str(tmp_path / "seen")), Corpus("en", train, TEST), sys.executable, final=False)
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    rest, dev = split_off_dev(sample(Corpus("en", train, TEST), 20, 0))
    assert all(label in seen for label in rest["label"]) and not any(f'"{label}"' in seen for label in dev["label"])
    assert "unseen" not in seen


def test_the_scores_are_those_of_the_predictions() -> None:
    found = measured("answer")
    first = sample(CORPUS, 20, 0)["label"][0]
    expected = np.array(TEST["label"] == first)
    assert bits(found).tolist() == expected.tolist()
    assert found["accuracy"] == pytest.approx(100 * expected.mean(), abs=0.01)
    assert (found["train_rows"], found["test_rows"], found["settings"]) == (20, 3, "en 0")
    assert found["versions"] == {"numpy": np.__version__}
    assert 0 < found["fit_seconds"] <= found["seconds"] < 30


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("fail", "exit code 1: no memory left"),
        ("short", "predictions.json: 2 labels; expected 3"),
        ("silent", "predictions.json: FileNotFoundError"),
    ],
)
def test_a_tool_that_fails_is_recorded_with_the_reason(how: str, said: str) -> None:
    found = measured(how)
    assert found["failed"].startswith(said)
    assert "accuracy" not in found and found["seconds"] > 0


def test_samples_are_disjoint_and_of_the_same_rows_for_every_tool() -> None:
    parts = [sample(CORPUS, 20, number)["text"].to_list() for number in (0, 1)]
    assert len(set(parts[0]) | set(parts[1])) == 40
    assert sample(CORPUS, 20, 0)["text"].to_list() == parts[0]
    assert sample(CORPUS, 20, 2)["text"].to_list() == parts[0]  # there are no more disjoint ones
    assert sample(CORPUS, 4_000, 1).height == 50
    assert (disjoint_samples("newsgroups", 500), disjoint_samples("newsgroups", 4_000)) == (4, 1)


def test_rows_with_a_held_out_text_are_not_trained_on() -> None:
    train = pl.DataFrame({"text": ["a", "b", "a", "c", "d"], "label": ["x"] * 5})
    rest, dev = split_off_dev(train)
    assert (dev["text"].to_list(), rest["text"].to_list()) == (["a"], ["b", "c", "d"])


def corpus(rows: int = 100) -> Corpus:
    """Return a corpus of `rows` texts; text 0 is in both of its parts."""
    found = pl.DataFrame({"text": [f"text {n}" for n in range(rows)], "label": ["yes"] * rows})
    return Corpus("en", found.head(rows - 20), pl.concat([found.tail(20), found.head(1)]))


def test_a_split_has_each_text_in_one_part_and_another_one_draws_other_texts() -> None:
    first, again, second = (split_again(corpus(), split) for split in (0, 0, 1))
    assert (first.train.height, first.test.height) == (70, 30)
    assert len({*first.train["text"], *first.test["text"]}) == 100
    assert first.test.equals(again.test)
    assert set(first.test["text"]) != set(second.test["text"])
    assert set(first.test["text"]) & {f"text {n}" for n in range(80)}  # rows of the other split's train too


def test_the_variance_of_splits_that_share_rows_is_larger_than_that_of_independent_ones() -> None:
    found = corrected([1.0, 3.0], ratio=0.5)
    error = np.sqrt(2) * np.sqrt(1 / 2 + 0.5)  # 1 without the correction
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 12.7062 * error, 2 + 12.7062 * error), rel=1e-4)
    assert found.p == pytest.approx(1 - 2 / np.pi * np.arctan(2 / error))  # Student's distribution with one degree
    assert corrected([0.0, 0.0], ratio=0.5).p == 1.0
    assert corrected([2.0, 2.0], ratio=0.5).p == 0.0


def half(samples: int, rows: int = 400) -> np.ndarray:
    """Return a tool that is right on random rows, the same after each sample."""
    right = np.random.default_rng(0).random(rows) < 0.5
    return np.tile(right, (samples, 1))


def test_rows_are_paired() -> None:
    worse = half(1)
    worse[0, np.flatnonzero(worse[0])[:8]] = False
    found = difference(draws("mr", worse, half(1)))
    error = 100 * np.sqrt(0.02 * 0.98 / 400)  # 0.7 points; 3.5 if rows were not paired
    assert found.mean == pytest.approx(-2)
    assert (found.low, found.high) == pytest.approx((-2 - 1.96 * error, -2 + 1.96 * error), abs=0.3)
    assert found.detectable == pytest.approx(2.8 * error, rel=0.1)


def test_samples_are_paired_and_their_chance_counts() -> None:
    good = np.stack([np.ones(100, bool), np.zeros(100, bool)])  # right after sample 0 alone
    same = difference(draws("mr", good, good.copy()))
    assert (same.low, same.high) == (0, 0)
    other = difference(draws("mr", good, ~good))  # 100 points ahead after sample 0, and behind after sample 1
    assert (other.mean, other.low, other.high, other.verdict) == (0, -100, 100, "tie")


def test_the_mean_over_sets_draws_them_independently() -> None:
    worse = half(1)
    worse[0, np.flatnonzero(worse[0])[:8]] = False
    parts = {name: draws(name, worse, half(1)) for name in ("mr", "sst2", "ced", "cold")}
    one, mean = (float(part.resampled.std()) for part in (parts["mr"], mean_draws(parts)))
    assert mean_draws(parts).mean == pytest.approx(-2)
    assert mean == pytest.approx(one / 2, rel=0.1)  # √4; equal draws would give one


def test_an_interval_that_ends_at_zero_is_a_tie() -> None:
    resampled = np.concatenate([np.zeros(100), np.ones(1900)])
    assert difference(Draws(1.0, resampled)).verdict == "tie"
    assert difference(Draws(1.0, np.concatenate([np.zeros(40), np.ones(1960)]))).verdict == "ahead"


def test_a_win_is_marked_after_holms_correction_over_the_sets() -> None:
    found = {name: Difference(5.0, 1.0, 9.0, p, 1.0) for name, p in (("mr", 0.04), ("sst2", 0.01), ("cold", 0.02))}
    assert {name: said.endswith("*") for name, said in verdicts(found).items()} == {
        "mr": True, "sst2": True, "cold": True,  # 0.04, 0.03 and 0.04
    }  # fmt: skip
    found["ced"] = Difference(5.0, 1.0, 9.0, 0.03, 1.0)  # then 0.06, 0.04, 0.06 and 0.06
    assert [name for name, said in verdicts(found).items() if said.endswith("*")] == ["sst2"]


def test_experience_is_the_mean_of_the_cells_that_all_systems_have() -> None:
    """mr and sst2 are English with 2 labels, newsgroups has 4; setfit is a library, and no system of a search."""
    cells = {
        ("mr", 0, "tfidf_svm"): 60.0,
        ("mr", 1, "tfidf_svm"): 99.0,
        ("sst2", 0, "tfidf_svm"): 61.0,
        ("mr", 0, "hybrid_linear"): 70.0,
        ("sst2", 0, "hybrid_linear"): 73.0,
        ("mr", 0, "setfit"): 90.0,
        ("newsgroups", 0, "tfidf_svm"): 90.0,
        ("ced", 0, "tfidf_svm"): 80.0,
        ("chnsenticorp", 0, "hybrid_linear"): 80.0,
    }
    found = {Cell(name, 500, n, tool, 120): {"accuracy": value} for (name, n, tool), value in cells.items()}
    failed = {Cell("ced", 500, 0, "hybrid_linear", 120): {"failed": "no memory left"}}
    means = {"hybrid_linear": 71.5, "tfidf_svm": 60.5}
    row = {"language": "en", "rows": 500, "labels": 2, "cells": 2, "accuracy": means}
    assert list(experience(grid_of(found | failed))) == [row]
