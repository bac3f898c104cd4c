"""The decoder decides: all stages run on texts with up to two labels, with a decoder that may choose only one.

A perfect decoder then finds one label of each text. Of the four kinds of text, {sport, arts}, {money}, {sport} and
{arts, money}, dev has 6, 5, 5 and 5 rows and test 11, 11, 10 and 10.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from tests.support.bad_input import Workshop
from tests.support.certain import (
    compare,
    lines,
    prepared,
    run_systems,
    several_labels,
)

CNLE: dict[str, Any] = {
    "recipe": "cnle",
    "view": "token",
    "encoder": {"embedding": 16, "width": 32, "dropout": 0.0},
    "train": {
        "epochs": 14,
        "learning_rate": 0.006,
        "patience": 14,
        "precision": "fp32",
        "batch_size": 16,
        "schedule": "constant",
    },
}
HEAD = {"embedding": 16, "hidden": 16, "dropout": 0.0, "max_labels": 1}
SYSTEMS = {
    "decoder": {**CNLE, "head": HEAD},
    "threshold": {**CNLE, "head": {**HEAD, "decision": "threshold"}},
}
DEV = [row["text"] for row in several_labels("dev", 1)]
DEV_F1 = 2 * 21 / (21 + 6 * 2 + 5 + 5 + 5 * 2)  # 21 rows get one correct label each
TEST_F1 = 2 * 42 / (42 + 11 * 2 + 11 + 10 + 10 * 2)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Run all stages for two systems that differ only in `decision`."""
    shop = prepared(Workshop(tmp_path_factory.mktemp("shop")), lines(several_labels), [], task="multi")
    shop.params(systems=SYSTEMS, views={"token": {"tokenizer": "token"}})
    run_systems(shop, list(SYSTEMS))
    compare(shop)
    return shop


def folder_of(shop: Workshop, system: str) -> Path:
    return shop.root / f"data/pruned/{system}/seed-0"


def metrics_of(shop: Workshop, system: str) -> Any:
    return json.loads((shop.root / f"data/evaluated/{system}/metrics.json").read_text())


def test_training_evaluation_and_comparison_score_the_labels_that_the_decoder_chose(shop: Workshop) -> None:
    metrics = metrics_of(shop, "decoder")
    assert metrics["decision"] == "decoder"
    assert metrics["dev_score"]["value"] == pytest.approx(DEV_F1)
    assert metrics["test_score"]["value"] == pytest.approx(TEST_F1)
    assert (metrics["dev"]["micro_precision"], metrics["test"]["micro_precision"]) == (1.0, 1.0)
    assert json.loads((folder_of(shop, "decoder") / "manifest.json").read_text())["dev_accuracy"] == pytest.approx(
        DEV_F1
    )
    rows = json.loads((shop.root / "data/report/summary.json").read_text())["rows"]
    (row,) = [row for row in rows if row["system"] == "decoder"]
    assert (row["dev_score"], row["test_score"]) == pytest.approx((DEV_F1, TEST_F1))


def test_the_model_folder_carries_the_decision(shop: Workshop) -> None:
    config = json.loads((folder_of(shop, "decoder") / "config.json").read_text())
    assert config["parts"]["head"]["decision"] == "decoder"
    assert config["thresholds"] == [0.5, 0.5, 0.5]


def test_every_interface_answers_with_one_label(shop: Workshop) -> None:
    folder = folder_of(shop, "decoder")
    wanted = [answer.label for answer in Predictor(folder).predict(DEV)]
    assert all("," not in label and label for label in wanted)
    plain, lists = shop.epigram("predict", folder, *DEV), shop.epigram("predict", folder, "--json", *DEV)
    assert [line.split("\t")[0] for line in plain.out.splitlines()] == wanted
    assert [json.loads(line)["labels"] for line in lists.out.splitlines()] == [[label] for label in wanted]
    table = shop.root / "texts.jsonl"
    table.write_text("".join(json.dumps({"text": text}) + "\n" for text in DEV))
    ended = shop.epigram("predict", folder, table, "--out", shop.root / "found.jsonl")
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in (shop.root / "found.jsonl").read_text().splitlines()]
    assert [row["labels"] for row in found] == [[label] for label in wanted]


def test_the_transformers_library_gets_the_same_labels(shop: Workshop) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    import epigram.hf  # noqa: F401  registers the model

    folder = folder_of(shop, "decoder")
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    read = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        chosen = model(**read(DEV, padding=True, return_tensors="pt")).logits.sigmoid() > torch.tensor(
            model.config.thresholds
        )
    labels = [[model.config.id2label[c] for c in row.nonzero().flatten().tolist()] for row in chosen]
    assert labels == [answer.labels for answer in Predictor(folder).predict(DEV)]


def test_thresholds_decide_where_they_are_asked_for(shop: Workshop) -> None:
    """The two models have the same weights, so only the decision differs."""
    first, second = (Predictor(folder_of(shop, name)) for name in SYSTEMS)
    assert (first.probabilities(DEV) == second.probabilities(DEV)).all()
    metrics = metrics_of(shop, "threshold")
    assert metrics["decision"] == "threshold"
    assert load(folder_of(shop, "threshold")).thresholds == metrics["seeds"][0]["thresholds"] != [0.5, 0.5, 0.5]
    assert metrics["dev_score"]["value"] > DEV_F1
    assert max(len(answer.labels) for answer in second.predict(DEV)) > 1


def test_the_report_names_the_decision_and_shows_tuned_thresholds_only(shop: Workshop) -> None:
    page = (shop.root / "data/report/report.html").read_text()
    assert page.count("The decoder of the model chooses the labels of a text.") == 1
    assert page.count('<th class="number">threshold</th>') == 1
