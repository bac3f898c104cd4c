"""Tests of the temperature that training and pruning store in a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.inference.predictors.measure import measure
from epigram.inference.predictors.predictor import Predictor
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import Predicted, predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from tests.support.trained import train_seed

RNG = np.random.default_rng(0)
ENCODER = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 2}
RECIPE = Recipe(name="mine", about="", paper="", view="token", encoder=ENCODER, head={"kind": "linear"})
CONFIG = TrainingConfig(epochs=4, learning_rate=1e-2, precision="fp32", threads=1)


def noisy(count: int, right: float) -> list[tuple[str, str]]:
    """Return texts whose word tells the label in the share `right` of them."""
    labels = RNG.integers(0, 2, count)
    said = np.where(RNG.random(count) < right, labels, 1 - labels)
    return [
        ("good film" if word else "bad film", ["neg", "pos"][label]) for word, label in zip(said, labels, strict=True)
    ]


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    return {"train": noisy(64, 1.0), "dev": noisy(40, 0.7), "test": noisy(40, 1.0)}


def best_temperature(predicted: Predicted, labels: np.ndarray) -> float:
    """Return the minimum of the smoothed cross-entropy, found by SciPy."""
    wrong = 1 / (len(labels) + 2)
    targets = np.where(np.arange(2) == labels[:, None], 1 - wrong, wrong)

    def loss(temperature: float) -> float:
        return float(-(targets * log_softmax(predicted.logits.astype(float) / temperature, axis=1)).sum())

    return float(minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-6}).x)


def raw(folder: Path, view: View, split: Any) -> Predicted:
    """Return the predictions without the model's temperature."""
    saved = load(folder)
    saved.model.temperature.fill_(1.0)
    return predict(saved.model, batches_of(view, split, saved.frame), precision="fp32")


def test_training_stores_the_temperature_of_dev_and_all_predictions_have_it(
    tmp_path: Path, encoded: Callable[..., View], corpus: Any
) -> None:
    """Dev is noisier than train and test, so the temperature of either of them is far from that of dev."""
    view, folder = encoded(corpus, language="en"), tmp_path / "model"
    train_seed("mine", RECIPE, CONFIG, view, None, 0, folder)
    temperature = float(load(folder).model.temperature)
    wanted, on_test = (
        best_temperature(raw(folder, view, name), np.array(view.split(name).labels)) for name in ("dev", "test")
    )
    assert temperature == pytest.approx(wanted, rel=1e-3)
    assert temperature > 2 * on_test
    unscaled = raw(folder, view, "test")
    calibrated = replace(unscaled, logits=unscaled.logits / np.float32(temperature)).probabilities
    measured = measure(folder, view)
    assert measured.temperature == temperature
    np.testing.assert_allclose(measured.test.probabilities, calibrated, atol=1e-6)
    texts = [text for text, _ in corpus["test"]]
    np.testing.assert_allclose(Predictor(folder, precision="fp32").probabilities(texts), calibrated, atol=1e-6)


def test_a_pruned_model_has_a_temperature_of_its_own(tmp_path: Path, encoded: Callable[..., View], corpus: Any) -> None:
    view, folder = encoded(corpus, language="en"), tmp_path / "model"
    train_seed("mine", RECIPE, CONFIG, view, None, 0, folder)
    settings = PruneSettings(threshold=0.0, rule="shallowest", tolerance=1.0, epochs=1)
    prune_model("mine", view, folder, settings, "auto", tmp_path / "pruned")
    model = load(tmp_path / "pruned").model
    assert model.depth < load(folder).model.depth
    wanted = best_temperature(raw(tmp_path / "pruned", view, "dev"), np.array(view.split("dev").labels))
    assert float(model.temperature) == pytest.approx(wanted, rel=1e-3)
    assert float(model.temperature) != float(load(folder).model.temperature)


def test_training_ignores_the_temperature(encoded: Callable[..., View], corpus: Any) -> None:
    """A model divides its logits in evaluation mode only, and its loss is that of the unscaled logits."""
    view = encoded(corpus, language="en")
    model: NeuralClassifier = RECIPE.build(data_spec_of(view, 16))
    texts = batches_of(view, "dev", template_of(view, 16))
    batch, labels = texts.gather(np.arange(8)), texts.targets(np.arange(8))
    model.eval()
    with torch.no_grad():
        before = model(batch, labels)
        model.temperature.fill_(4.0)
        after = model(batch, labels)
        model.encoder.eval(), model.head.eval()  # without dropout
        model.training = True
        training = model(batch, labels)
    torch.testing.assert_close(after.logits, before.logits / 4)
    torch.testing.assert_close(training.logits, before.logits)
    assert after.loss == before.loss == training.loss
