"""Tests of what the benchmarks run: their data, the plain training loops, and the measured stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import gpu_small, measured_steps
from benchmarks.equal_epochs import LastWeights
from benchmarks.plain_loop import Settings, optimizer_of, padded_batches, train
from epigram.core.arrays import Ragged
from epigram.nn.layers.types import Prediction, Tokens
from epigram.text.dataset.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.classification import Classification
from tests.support.host_waits import Waits
from tests.support.scripted import CONFIG, Dev, Scripted, texts

PART = Split(Ragged(np.arange(6), np.array([0, 2, 2, 6])), np.array([4, 5, 6]), np.array([10, 11, 12]), None)


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_plain_loop_trains_as_many_epochs_as_ours(epochs: int) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.texts = torch.nn.Parameter(torch.zeros(())), 0

        def forward(self, tokens: Tokens, labels: torch.Tensor) -> Prediction:
            self.texts += len(labels)
            return Prediction(logits=labels, loss=self.weight)

    texts = [(torch.ones(3, dtype=torch.int64), torch.tensor(0)) for _ in range(10)]
    model, config = Counting(), TrainingConfig(epochs=epochs, batch_size=4)
    train(model, texts, 0, config, Settings("to the longest", bf16=False))
    assert model.texts == 10 * epochs


def test_the_plain_loop_has_our_optimizer_and_knows_the_lengths_of_its_texts() -> None:
    config = TrainingConfig(learning_rate=0.5, weight_decay=0.25)
    found = optimizer_of(torch.nn.Linear(2, 2), config).defaults
    assert (found["fused"], found["lr"], found["weight_decay"]) == (True, 0.5, 0.25)
    texts = [(torch.ones(length, dtype=torch.int64), torch.tensor(0)) for length in (2, 9)]
    [(tokens, _)] = padded_batches(texts, 0, 2, padding="to the longest", longest=6, shuffle=False)
    assert tokens.lengths.tolist() == tokens.valid.sum(1).tolist() == [2, 6]


@pytest.mark.parametrize("padding", ["to the longest", "grouped by length"])
def test_the_plain_loop_of_a_gpu_does_not_wait_for_it(padding: Any) -> None:
    reads = []
    for steps in (1, 3):
        part = gpu_small.split(steps * gpu_small.BATCH, gpu_small.LENGTH, shortest=0.25)
        _, epoch = gpu_small.plain_peer("textcnn", part, padding, TrainingConfig(clip=1.0))
        with Waits() as waits:
            assert epoch() == steps
        reads.append(waits.found.count("_local_scalar_dense"))
    assert reads[0] == reads[1]  # the DataLoader's own seeds, which are on the CPU


def test_the_clock_has_the_construction_of_our_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Slow:
        """Trainer that takes five seconds to construct and one to run."""

        def __init__(self, *_: Any, **__: Any) -> None:
            clock[0] += 5

        def run(self) -> None:
            clock[0] += 1

    monkeypatch.setattr(measured_steps, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(measured_steps, "Trainer", Slow)
    monkeypatch.setattr(measured_steps, "texts_of", lambda *_: None)
    monkeypatch.setattr(measured_steps, "label_objective", lambda *_: None)
    view: Any = type("Dev", (), {"split": lambda *_: PART})()
    assert measured_steps.our_run(None, view, (PART, PART), TrainingConfig(), 0.1) == 6


@pytest.mark.parametrize(("kind", "steps"), [(Classification, 1), (LastWeights, 3)])
def test_a_comparison_of_accuracy_keeps_the_last_weights_as_the_peers_do(
    kind: type[Classification], steps: int
) -> None:
    falling = [Dev(9), Dev(5), Dev(1)]
    model = Scripted(falling)
    config = TrainingConfig(**CONFIG, epochs=len(falling))
    Trainer(model, kind(texts(4), texts(10), config), seed=0).run()
    assert int(model.mark) == steps
