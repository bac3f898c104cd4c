"""Every choice of the stages is made on dev: all stages run on a corpus whose test labels contradict dev.

In train and dev one word decides the label; in test the same word belongs to another label. A model fitted to dev is
always right on dev and always wrong on test.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epigram.core.files import read_json, write_json
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.results import read_evaluation, write_evaluation
from epigram.evaluation.settings import CompareSettings
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.workflow.compare import compare_systems
from tests.support.bad_input import Workshop
from tests.support.certain import (
    LABELS,
    compare,
    lines,
    one_label,
    prepared,
    run_systems,
    several_labels,
)

OTHER = {"money": "sport", "sport": "arts", "arts": "money"}
DEPTH = 3
ABSOLUTE = {"threshold": 0.5, "rule": "shallowest", "tolerance": 0.01, "epochs": 1}  # dev: all above; test: none


def opposed(rows: Any) -> Any:
    """Return the corpus `rows` with every label of the test set replaced by another."""

    def changed(split: str, seed: int) -> Iterator[dict[str, Any]]:
        for row in rows(split, seed):
            label = row["label"]
            other = OTHER[label] if isinstance(label, str) else [OTHER[name] for name in label]
            yield {**row, "label": other} if split == "test" else row

    return changed


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Single-label: run all stages for a deep system, a linear one and the random baseline, and compare them."""
    names = ["random", "transformer", "tfidf_svm"]
    shop = prepared(Workshop(tmp_path_factory.mktemp("single")), lines(opposed(one_label)), names, prune=ABSOLUTE)
    run_systems(shop, names)
    compare(shop)
    return shop


def test_the_model_of_the_best_seed_is_the_chosen_one(single: Workshop, tmp_path: Path) -> None:
    """A second seed with a better score on dev."""
    name, data = "tfidf_svm", single.root / "data"
    found = read_evaluation(data / "evaluated" / name)
    (seed,), splits = found.metrics.seeds, (found.dev, found.test)
    seeds = [replace(seed, seed=number, dev_score=score) for number, score in ((0, 0.5), (1, 0.9))]
    dev, test = (replace(each, probabilities=np.repeat(each.probabilities, 2, axis=0)) for each in splits)
    metrics = replace(found.metrics, seeds=seeds)
    write_evaluation(tmp_path / "evaluated" / name, replace(found, metrics=metrics, dev=dev, test=test))
    shutil.copytree(data / "pruned" / name, tmp_path / "pruned" / name)
    shutil.copytree(data / "pruned" / name / "seed-0", tmp_path / "pruned" / name / "seed-1")
    file = tmp_path / "pruned" / name / "seed-1" / "manifest.json"
    write_json(file, {**read_json(file), "seed": 1})
    (tmp_path / "ensemble").mkdir()
    EnsembleRecord(reason="one system").write(tmp_path / "ensemble")
    own = (tmp_path / folder for folder in ("evaluated", "ensemble", "pruned", "out"))
    compare_systems({name: {}}, CompareSettings(), data / "validated", data / "examined", *own)
    assert read_json(tmp_path / "out/chosen/manifest.json")["seed"] == 1


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Multi-label: run all stages of a Transformer."""
    rows = lines(opposed(several_labels))
    shop = prepared(Workshop(tmp_path_factory.mktemp("several")), rows, ["transformer"], task="multi", prune=ABSOLUTE)
    run_systems(shop, ["transformer"])
    return shop


def read(shop: Workshop, path: str) -> Any:
    return json.loads((shop.root / "data" / path).read_text())


def test_the_corpus_says_the_opposite_on_test(single: Workshop) -> None:
    for name in ("transformer", "tfidf_svm"):
        metrics = read(single, f"evaluated/{name}/metrics.json")
        assert (metrics["dev"]["accuracy"], metrics["test"]["accuracy"]) == (1.0, 0.0)


def test_the_system_that_is_best_on_dev_is_chosen_and_ties_are_those_of_dev(single: Workshop) -> None:
    summary = read(single, "report/summary.json")
    outcomes = {row["system"]: (row["outcome"], row["test_outcome"]) for row in summary["rows"]}
    assert outcomes["random"] == ("worse", "better")
    assert sorted(outcomes[name] for name in ("transformer", "tfidf_svm")) == [("chosen", None), ("tie", "tie")]
    assert summary["rows"][0]["dev_score"] == 1.0
    assert load(single.root / "data/report/chosen").system == summary["chosen_system"] != "random"


def test_the_temperature_trusts_a_system_that_is_always_right_on_dev(single: Workshop) -> None:
    found = read(single, "evaluated/transformer/metrics.json")["calibration"]
    assert found["temperature"] < 5  # test, where every confident prediction is wrong, would give the largest one, 148
    assert found["ece"] > 0.9


def test_the_depth_is_that_of_dev(single: Workshop) -> None:
    (seed,) = read(single, "pruned/transformer/pruning.json")["seeds"]
    assert (seed["depth_full"], seed["depth"], seed["accepted"]) == (DEPTH, 1, True)
    assert [point["classifier_score"] for point in seed["tradeoff"]] == [1.0] * DEPTH
    assert load(single.root / "data/pruned/transformer/seed-0").model.depth == 1


def test_the_score_that_a_model_notes_is_that_of_dev(single: Workshop) -> None:
    for kind, name in (("models", "transformer"), ("pruned", "transformer"), ("models", "tfidf_svm")):
        assert read(single, f"{kind}/{name}/seed-0/manifest.json")["dev_accuracy"] == 1.0


@pytest.mark.parametrize("kind", ["models", "pruned"])
def test_the_thresholds_are_right_on_dev(several: Workshop, kind: str) -> None:
    folder = several.root / f"data/{kind}/transformer/seed-0"
    rows = list(several_labels("dev", 1))
    wanted = [", ".join(name for name in LABELS if name in row["label"]) for row in rows]
    assert [answer.label for answer in Predictor(folder).predict([row["text"] for row in rows])] == wanted


def test_the_thresholds_of_the_report_are_right_on_dev(several: Workshop) -> None:
    metrics = read(several, "evaluated/transformer/metrics.json")
    assert metrics["dev"]["micro_f1"] == 1.0
    # Of the 42 rows 11, 11, 10 and 10 are of each kind; the predictions are {sport, arts}, {money}, {sport}, {arts,
    # money} and the labels {arts, money}, {sport}, {arts}, {money, sport}: one label of each pair is right, no other.
    assert metrics["test"]["micro_f1"] == pytest.approx((11 + 10) / (2 * 11 + 11 + 10 + 2 * 10))
