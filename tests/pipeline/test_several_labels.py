"""A multi-label corpus, from the file to a prediction on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epigram.core.files import sha256
from epigram.evaluation.records.results import read_evaluation
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.predict import predict
from epigram.models.serialization import load
from epigram.text.dataset.encoded_dataset import View
from tests.support.bad_input import ROWS, Workshop

FOOD = ("饭店", "味道", "早餐", "菜单")
SYSTEMS = {
    "mlp": {"view": "token", "train": {"epochs": 2}},
    "tfidf_svm": {"view": "token"},
    "transformer": {"view": "token", "encoder": {"width": 16, "hidden": 16, "depth": 3}, "train": {"epochs": 2}},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return a workshop in which every stage up to train has run."""
    shop = Workshop(tmp_path_factory.mktemp("workshop"))
    shop.params(systems=SYSTEMS)
    rows = [{"text": text, "label": [label, *(["food"] if any(map(text.count, FOOD)) else [])]} for text, label in ROWS]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    shop.source(lines, suffix="jsonl", task="multi")
    steps: list[tuple[str, ...]] = [
        ("download", "data/sources/reviews.yaml", "data/raw"),
        ("validate", "data/raw", "data/validated"),
        ("pos_table", "data/validated", "data/pos_versions", "data/pos"),
        ("augment", "data/validated", "data/augmented"),
        ("encode", "token", "data/validated", "data/augmented", "data/pos", "data/encoded/token"),
        ("pretrain", "token", "data/encoded/token", "data/pretrained/token"),
        *(("train", name, "data/encoded/token", "data/pretrained/token", f"data/models/{name}") for name in SYSTEMS),
    ]
    for step in steps:
        ended = shop.stage(*step)
        assert ended.code == 0, ended.err
    return shop


def answers(shop: Workshop, model: str, texts: list[str]) -> list[str]:
    ended = shop.epigram("predict", model, *texts)
    assert ended.code == 0, ended.err
    return [line.split("\t")[0] for line in ended.out.splitlines()]


def named(shop: Workshop, model: str, texts: list[str], cuts: list[float]) -> list[str]:
    """Return the labels above the thresholds `cuts`, from the probabilities that the command prints."""
    shown = [json.loads(line) for line in shop.epigram("predict", model, "--json", *texts).out.splitlines()]
    return [
        ", ".join(
            label for (label, p), cut in zip(row["probabilities"].items(), cuts, strict=True) if np.float32(p) > cut
        )
        for row in shown
    ]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_model_keeps_the_thresholds_that_dev_gave_and_answers_by_them(shop: Workshop, name: str) -> None:
    folder, texts = f"data/models/{name}/seed-0", [text for text, _ in ROWS]
    cuts = json.loads((shop.root / folder / "config.json").read_text())["thresholds"]
    assert len(cuts) == 3 and cuts != [0.5, 0.5, 0.5]
    assert answers(shop, folder, texts) == named(shop, folder, texts, cuts)


def test_a_model_without_thresholds_answers_by_one_half(shop: Workshop) -> None:
    folder, texts = shop.root / "data/models/mlp/seed-0", [text for text, _ in ROWS]
    old = shop.root / "new/old"
    old.mkdir(parents=True)
    for file in folder.iterdir():
        (old / file.name).write_bytes(file.read_bytes())
    config = json.loads((old / "config.json").read_text())
    del config["thresholds"]
    (old / "config.json").write_text(json.dumps(config))
    note_checksum(old)
    assert answers(shop, "new/old", texts) == named(shop, "new/old", texts, [0.5] * 3)


def note_checksum(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["config.json"] = sha256(folder / "config.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_pruned_model_has_thresholds_of_its_own_and_the_report_has_the_same(shop: Workshop) -> None:
    shop.params(systems=SYSTEMS, prune={"threshold": 0.0, "rule": "equation", "tolerance": 1.0, "epochs": 1})
    data = ("data/encoded/token", "data/models/transformer", "data/pruned/transformer")
    ended = shop.stage("prune", "transformer", *data)
    assert ended.code == 0, ended.err
    folder = shop.root / data[2] / "seed-0"
    saved, view = load(folder), View.load(shop.root / data[0])
    probabilities = predict(saved.model, batches_of(view, "dev", saved.frame)).probabilities
    assert saved.thresholds == tuned_thresholds(view.split("dev").labels > 0, probabilities).tolist()

    shop.params(systems=SYSTEMS)
    out = "data/evaluated/transformer"
    ended = shop.stage("evaluate", "transformer", "data/validated", data[0], data[2], out)
    assert ended.code == 0, ended.err
    assert list(read_evaluation(shop.root / out).metrics.seeds[0].thresholds) == pytest.approx(
        saved.thresholds, abs=1e-6
    )
