"""All stages on a corpus that is too small for a test split: its systems are scored out of fold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from epigram.core.files import read_json
from epigram.evaluation.records.results import read_evaluation
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.text.dataset.encoded_dataset import View
from tests.support.bad_input import Workshop
from tests.support.certain import LABELS, WORD, compare, one_label, prepared, run_systems, several_labels

FOLDS = 4
NAMES = ["textcnn", "tfidf_svm", "random"]


def content(rows: Any) -> str:
    """Return the rows of train as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows("train", 0))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    shop = Workshop(tmp_path_factory.mktemp("single"))
    prepared(shop, content(one_label), NAMES, folds=FOLDS)
    run_systems(shop, NAMES)
    compare(shop)
    return shop


def logits_of(shop: Workshop, name: str) -> Any:
    return load_file(shop.root / f"data/pruned/{name}/seed-0/out_of_fold.safetensors")


def test_all_rows_are_trained_on_and_scored(single: Workshop) -> None:
    corpus = read_json(single.root / "data/validated/corpus.json")
    assert corpus["rows"] == {"train": 168, "dev": 0, "test": 0}
    labels = View.load(single.root / "data/encoded/token").split("train").labels
    for name in NAMES:
        found, logits = read_evaluation(single.root / f"data/evaluated/{name}"), logits_of(single, name)
        assert (found.test.labels == labels).all()
        score = (logits["logits"].argmax(1) == labels).mean()
        assert found.metrics.test_score.value == found.metrics.dev_score.value == pytest.approx(score)
    assert read_evaluation(single.root / "data/evaluated/tfidf_svm").metrics.test_score.value > 0.97


def test_the_report_says_what_the_scores_are(single: Workshop) -> None:
    report, summary = (single.root / "data/report" / name for name in ("report.html", "summary.json"))
    assert "100 rows would be more than a fifth" in report.read_text()
    found = read_json(summary)
    assert "% out of fold, less the expected optimism of " in found["verdict"]
    chosen = next(row for row in found["rows"] if row["outcome"] == "chosen")
    assert chosen["test_score"] == pytest.approx(chosen["dev_score"] - found["optimism"])
    assert 0.9 < chosen["test_low"] <= chosen["test_score"] <= 1.0


def test_the_chosen_model_is_trained_on_all_rows(single: Workshop) -> None:
    found = Predictor(single.root / "data/report/chosen").predict([f"some {WORD[label]} today" for label in LABELS])
    assert [each.labels for each in found] == [[label] for label in LABELS]


@pytest.mark.parametrize("name", NAMES[:2])
def test_no_row_is_scored_by_a_model_that_was_trained_on_it(name: str, tmp_path: Path) -> None:
    """The label of a text follows from its own word alone, so that only a model that has seen the text knows it."""
    draw = np.random.default_rng(5)
    rows = [{"text": f"own{n} own{n}", "label": LABELS[draw.integers(3)], "split": "train"} for n in range(150)]
    shop = prepared(Workshop(tmp_path), "".join(json.dumps(row) + "\n" for row in rows), [name], folds=FOLDS)
    run_systems(shop, [name])
    assert read_evaluation(shop.root / f"data/evaluated/{name}").metrics.test_score.value < 0.5


def test_the_labels_of_a_fold_are_above_the_thresholds_of_the_others(tmp_path: Path) -> None:
    shop = prepared(Workshop(tmp_path), content(several_labels), NAMES[:2], folds=FOLDS, task="multi")
    run_systems(shop, NAMES[:2])
    compare(shop)
    view = View.load(shop.root / "data/encoded/token")
    gold, folds = np.asarray(view.split("train").labels) > 0, view.fold_numbers()
    rows = {row["system"]: row["dev_score"] for row in read_json(shop.root / "data/report/summary.json")["rows"]}
    for name in NAMES[:2]:
        metrics = read_evaluation(shop.root / f"data/evaluated/{name}").metrics
        known = 1 / (1 + np.exp(-logits_of(shop, name)["logits"]))
        predicted = np.zeros_like(gold)
        for fold in range(FOLDS):
            own = folds == fold
            predicted[own] = known[own] > tuned_thresholds(gold[~own], known[~own])
        score = 2 * (gold & predicted).sum() / (gold.sum() + predicted.sum())
        assert metrics.test_score.value == metrics.dev_score.value == rows[name] == pytest.approx(score)
        assert metrics.seeds[0].thresholds == load(shop.root / f"data/pruned/{name}/seed-0").thresholds


def test_with_folds_turned_off_the_splits_are_cut(tmp_path: Path) -> None:
    shop = prepared(Workshop(tmp_path), content(one_label), NAMES[1:], folds=0)
    assert read_json(shop.root / "data/validated/corpus.json")["rows"] == {"train": 134, "dev": 17, "test": 17}
