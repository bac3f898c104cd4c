"""Test of the statistics that a promotion stores for the drift checks: those of many training texts are of a sample."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epigram.monitoring.drift import Ngrams, histogram, ngram_similarity
from epigram.runner.retraining import drift
from tests.support.linear_models import LABELS, TRAIN, svm
from tests.support.text_samples import validated


def test_labels_that_alternate_in_train_have_their_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second row would be about food."""
    monkeypatch.setattr(drift, "MAX_TRAINING_TEXTS", 200)
    rows = [("nice soup", "food"), ("large room", "room")]
    corpus = validated(tmp_path / "validated", "en", {"train": rows * 101, "dev": rows, "test": rows}, labels=LABELS)
    (tmp_path / "model").mkdir()
    graph: Any = SimpleNamespace(find=lambda name: corpus.folder / name)
    stored = json.loads(drift.reference(svm(tmp_path / "model", "en", TRAIN["en"]), graph))
    food, room, staff = stored["histograms"]["label"]["counts"]
    assert (food + room, staff) == (200, 0)
    assert food == pytest.approx(100, abs=1)


def test_the_likeness_is_of_texts_that_the_model_was_not_trained_on(tmp_path: Path) -> None:
    """A training text is like the training texts by definition: no new text would be as close as that."""
    train, dev = [("nice soup", "food"), ("large room", "room")] * 20, [("wxyz qvk", "food")] * 2
    corpus = validated(tmp_path / "validated", "en", {"train": train, "dev": dev, "test": dev}, labels=LABELS)
    (tmp_path / "model").mkdir()
    graph: Any = SimpleNamespace(find=lambda name: corpus.folder / name)
    stored = json.loads(drift.reference(svm(tmp_path / "model", "en", TRAIN["en"]), graph))
    wanted = histogram(ngram_similarity([text for text, _ in dev], Ngrams(**stored["ngrams"])))
    assert stored["histograms"]["likeness"]["counts"] == list(wanted.counts)
    assert sum(wanted.counts) == 2
