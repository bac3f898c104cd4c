"""Tests of the loss of text labels against an independent reading in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from epigram.nn.layers.loss import LossOptions, classification_loss

RNG = np.random.default_rng(0)
LOGITS, CLASSES = RNG.normal(0, 2, (6, 4)), np.array([0, 1, 3, 3, 2, 0])
INDICATORS = (RNG.random((6, 4)) < 0.4).astype(np.int64)
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0])
SETTINGS = [dict(zip(("weight", "smoothing", "focal_gamma"), each, strict=True))
            for each in itertools.product((None, WEIGHT), (0.0, 0.3), (0.0, 1.5))]  # fmt: skip


def wanted_single(weight: Any, smoothing: float, focal_gamma: float) -> np.ndarray:
    """Return the loss of each text: w_y · (1 − p_y)^γ · −Σ_c q_c log p_c with q = (1 − ε) · one-hot + ε / C."""
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    found = []
    for row, label in zip(p, CLASSES, strict=True):
        target = np.full(4, smoothing / 4)
        target[label] += 1 - smoothing
        found.append(
            (1 if weight is None else weight[label]) * (1 - row[label]) ** focal_gamma * -(target @ np.log(row))
        )
    return np.array(found)


def wanted_multi(weight: Any, smoothing: float, focal_gamma: float) -> np.ndarray:
    """Return the loss of each label: −(w q log p + (1 − q) log(1 − p)) times (1 − p of the right answer)^γ."""
    p = 1 / (1 + np.exp(-LOGITS))
    q = INDICATORS * (1 - smoothing) + smoothing / 2
    w = np.ones(4) if weight is None else weight
    right = np.where(INDICATORS > 0, p, 1 - p)
    return -(w * q * np.log(p) + (1 - q) * np.log(1 - p)) * (1 - right) ** focal_gamma


def options(settings: dict[str, Any]) -> LossOptions:
    weight = settings["weight"]
    return LossOptions(**{**settings, "weight": None if weight is None else torch.tensor(weight)})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_loss_is_the_formula(settings: dict[str, Any]) -> None:
    logits = torch.tensor(LOGITS)
    for labels, wanted in ((CLASSES, wanted_single(**settings)), (INDICATORS, wanted_multi(**settings))):
        for reduction in ("mean", "sum"):
            found = classification_loss(logits, torch.tensor(labels), options(settings), reduction=reduction)
            assert found.item() == pytest.approx(getattr(wanted, reduction)(), rel=1e-5)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_two_halves_of_a_batch_have_the_gradient_of_the_batch(settings: dict[str, Any]) -> None:
    """Otherwise a batch that is split because memory ran out, or several processes, would train another model."""
    for labels in (torch.tensor(CLASSES), torch.tensor(INDICATORS)):
        whole, halves = (torch.tensor(LOGITS, requires_grad=True) for _ in range(2))
        classification_loss(whole, labels, options(settings)).backward()
        for rows, share in ((slice(0, 2), 1 / 3), (slice(2, 6), 2 / 3)):
            (share * classification_loss(halves[rows], labels[rows], options(settings))).backward()
        torch.testing.assert_close(whole.grad, halves.grad, rtol=1e-5, atol=1e-7)


def test_a_certain_prediction_has_a_finite_gradient() -> None:
    logits = torch.tensor([[80.0, -80.0], [-80.0, 80.0]], requires_grad=True)
    for labels in (torch.tensor([0, 0]), torch.tensor([[1, 0], [1, 0]])):
        classification_loss(logits, labels, LossOptions(focal_gamma=0.5)).backward()
        assert logits.grad is not None and logits.grad.isfinite().all()
