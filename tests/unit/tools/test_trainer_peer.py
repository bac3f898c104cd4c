"""Tests of transformers' Trainer as a peer: its predictions, and the weights of its test accuracy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import minilm, time_to_score, trainer_peer
from epigram.core.arrays import Ragged
from epigram.text.dataset.encoded_dataset import Split
from tests.support.tiny_bert import SPECIAL
from tests.support.tiny_classifier import write_classifier

WORDS = ("a", "film", "good", "bad", "book", "long", "the", "not")


def texts(rows: int, seed: int) -> Split:
    """Return texts of 1 to 12 words; the first word determines the label, one of three."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 13, rows)
    ids = random.integers(len(SPECIAL), len(SPECIAL) + len(WORDS), lengths.sum()).astype(np.int32)
    found = Ragged.from_lengths(ids, lengths)
    return Split(found, np.array([text[0] % 3 for text in found]), np.arange(rows), None)


@pytest.fixture
def view(tmp_path: Path) -> Any:
    """Return a view on a tiny classifier, with some texts in each split."""
    parts = {name: texts(rows, seed) for seed, (name, rows) in enumerate({"train": 64, "dev": 20, "test": 40}.items())}
    return SimpleNamespace(
        checkpoint=write_classifier(tmp_path / "classifier", WORDS),
        prefix_ids=[SPECIAL.index("[CLS]")],
        suffix_ids=[SPECIAL.index("[SEP]")],
        labels=["x", "y", "z"],
        split=parts.__getitem__,
    )


@torch.no_grad()
def classes(model: Any, rows: list[dict[str, Any]]) -> list[int]:
    """Return the predicted class of each text alone."""
    return [int(model.eval()(torch.tensor([row["input_ids"]])).logits.argmax()) for row in rows]


@pytest.mark.parametrize("grouped", [True, False])
def test_predictions_are_in_the_order_of_the_texts(grouped: bool, view: Any, tmp_path: Path) -> None:
    train, held_out = (trainer_peer.examples(view, view.split(name)) for name in ("train", "test"))
    how, more = trainer_peer.Settings(grouped, bf16=False), {"learning_rate": 1e-2, "num_train_epochs": 5}
    made = trainer_peer.trainer(view, minilm.theirs(view), train, how, tmp_path, **more)
    made.train()
    expected = classes(made.model, held_out)
    assert len(set(expected)) > 1
    assert trainer_peer.predicted(made, held_out).tolist() == expected


def test_the_test_accuracy_is_that_of_the_weights_that_are_best_on_dev(
    view: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, weights = minilm.theirs(view), list[torch.Tensor]()
    scores = iter([0.2, 0.9, 0.9, 0.3, 0.7])  # of four evaluations on dev, and of test

    def scripted(_: Any) -> dict[str, float]:
        weights.append(model.classifier.weight.detach().clone())
        return {"accuracy": next(scores)}

    monkeypatch.setattr(time_to_score.minilm, "theirs", lambda *_: model)
    for name, value in {"right": scripted, "BATCH": 16, "EPOCHS": 1, "EVALUATIONS": 4}.items():
        monkeypatch.setattr(time_to_score, name, value)
    curve = time_to_score.theirs(view, 1e-3, 0, tmp_path)
    *dev, test = weights
    assert (curve.accuracy, curve.test) == ([0.2, 0.9, 0.9, 0.3], 0.7)
    assert len(curve.seconds) == len(dev) == 4
    assert [torch.equal(each, test) for each in dev] == [False, True, False, False]
