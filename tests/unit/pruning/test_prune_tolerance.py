"""Tests of the tolerance of pruning: a shallower model may lose exactly that much on dev."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from epigram.evaluation.metrics.primary import metric_of
from epigram.pruning import depth
from epigram.pruning.settings import PruneSettings
from epigram.training.config import TrainingConfig


class Stack:
    """Model of three layers."""

    head: Any = None
    multi = False

    def __init__(self) -> None:
        self.depth, self.temperature = 3, torch.ones(())

    def drop(self, layer: int) -> None:
        """Remove a layer."""
        self.depth -= 1


def pruned(before: float, after: float, tolerance: float, patch: pytest.MonkeyPatch) -> depth.PruningResult:
    """Prune to the second of three layers, with the given dev scores before and after."""
    record = SimpleNamespace(score=(after, 0.0), accuracy=after)
    patch.setattr(depth, "layer_accuracies", lambda *_: [0.5, 0.9, 0.9])
    patch.setattr(depth, "predict", lambda *_, **__: None)
    patch.setattr(depth.DevScore, "of", lambda *_: before)
    patch.setattr(depth, "label_objective", lambda *_, **__: None)
    patch.setattr(depth, "Trainer", lambda *_, **__: SimpleNamespace(run=lambda: record))
    settings = PruneSettings(rule="shallowest", tolerance=tolerance)
    data: Any = object()
    return depth.prune(
        Stack(),
        data,
        data,
        classes=2,
        settings=settings,
        config=TrainingConfig(learning_rate=0.1),
        seed=0,
        metric=metric_of("auto", "single", []),
    )


@pytest.mark.parametrize("before", [20, 23, 26, 50])  # hundredths: 0.20 - 0.02 is above 0.18 as floats
def test_a_loss_of_exactly_the_tolerance_is_accepted(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pruned(before / 100, (before - 2) / 100, 0.02, monkeypatch)
    assert kept.accepted
    assert kept.model.depth == 2


def test_a_loss_above_the_tolerance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pruned(0.62, 0.5999, 0.02, monkeypatch)
    assert not kept.accepted
    assert kept.model.depth == 3
    scores = "dev accuracy 62.0 → 60.0 after fine-tuning"
    assert kept.reason == f"dropping 1 of 3 layers costs too much: {scores}; all layers are kept"
