"""One cell of the accuracy grid: what a tool is given, how its answer is scored, and how it is ended."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks import accuracy_measure
from benchmarks.accuracy_catalogue import Tool
from benchmarks.accuracy_cells import Cell
from benchmarks.accuracy_data import Corpus, disjoint_samples, sample, split_off_dev
from benchmarks.accuracy_grid import bits
from benchmarks.accuracy_measure import measure, score

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


def test_the_macro_f1_counts_every_label_the_same(tmp_path: Path) -> None:
    (tmp_path / "predictions.json").write_text(json.dumps({"labels": ["good", "good", "good"]}))
    found = score(tmp_path / "predictions.json", TEST)
    assert (found["accuracy"], found["macro_f1"], found["right"]) == (66.67, 40.0, "a0")  # F1 0.8 and 0


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


def test_a_tool_that_takes_too_long_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_measure, "GRACE", 5.0 - 2 * CELL.budget)
    found = measured("linger", str(tmp_path / "child"))
    assert found["failed"] == "stopped after 5 s: no output"
    assert found["peak_mb"] >= 190  # the child's memory
    with pytest.raises(ProcessLookupError):
        for _ in range(50):
            os.kill(int((tmp_path / "child").read_text()), 0)
            time.sleep(0.1)


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
