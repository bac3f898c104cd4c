"""A pretrained encoder from a local folder in encode, train and prediction; nothing is downloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.stages import augment, download, encode, pos_table, pretrain, train, validate
from epigram.training.distributed.resources import available_cores

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny BERT with random weights, saved by the transformers library."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("checkpoint")
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), ".", ",", ":"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=64,
        )
    ).save_pretrained(folder)  # fmt: skip
    return folder


def run(monkeypatch: pytest.MonkeyPatch, stage: object, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["stage", *arguments])
    stage.main()  # type: ignore[attr-defined]


def test_a_checkpoint_is_fine_tuned_saved_and_reloaded_without_it(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("sources", "pocket"):
        (tmp_path / "data" / name).symlink_to(ROOT / "data" / name)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["dataset"] = "pocket_en"
    params["views"] = {"wordpiece_prompt": {"tokenizer": "wordpiece", "prompt": True, "checkpoint": str(checkpoint)}}
    params["systems"] = {"bert_pta": {"view": "wordpiece_prompt", "train": {"epochs": 1, "max_length": 64}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    run(monkeypatch, download, "data/sources/pocket_en.yaml", "raw")
    run(monkeypatch, validate, "raw", "validated")
    run(monkeypatch, pos_table, "validated", "versions", "pos")
    run(monkeypatch, augment, "validated", "augmented")
    run(monkeypatch, encode, "wordpiece_prompt", "validated", "augmented", "pos", "encoded")
    run(monkeypatch, pretrain, "wordpiece_prompt", "encoded", "pretrained")
    run(monkeypatch, train, "bert_pta", "encoded", "pretrained", "models")

    folder = tmp_path / "models" / "seed-0"
    assert json.loads((folder / "manifest.json").read_text())["training"]["threads"] == available_cores()
    before = Predictor(folder).probabilities(["good food", "a bad book, and a long one"])
    assert load(folder).model.depth == 3
    checkpoint.rename(checkpoint.with_name("gone"))
    try:
        np.testing.assert_array_equal(
            Predictor(folder).probabilities(["good food", "a bad book, and a long one"]), before
        )
    finally:
        checkpoint.with_name("gone").rename(checkpoint)
    saved = load(folder).model
    saved.drop(-1)
    assert saved.depth == 2
