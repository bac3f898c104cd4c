"""Losses and dropout: independent readings in float64, and rates close to 1."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.nn.heads.prompt import log_complement
from epigram.nn.layers.dropout import Dropout, keep_factors, replace_dropout
from epigram.nn.layers.loss import LossOptions, classification_loss
from tests.support.operators import Operators

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


def of_sums(logits: Tensor) -> Tensor:
    """Return log Σ_{k≠c} exp z_k − log Σ_k exp z_k by a sum for each class, (B, C)."""
    others = [torch.cat([logits[:, :c], logits[:, c + 1 :]], 1).logsumexp(1) for c in range(logits.shape[1])]
    return torch.stack(others, 1) - logits.logsumexp(1, keepdim=True)


@pytest.mark.parametrize("classes", [2, 3, 50])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1000.0])  # at 0, all classes are equally probable
def test_values_and_gradients_are_those_of_the_sums(classes: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = spread * torch.randn(8, classes, generator=generator, dtype=torch.float64)
    weight = torch.rand(8, classes, generator=generator, dtype=torch.float64)
    one, other = (logits.clone().requires_grad_() for _ in range(2))
    found, expected = log_complement(one), of_sums(other)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y, x in ((found, one), (expected, other))]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_a_certain_class_keeps_the_digits_of_the_others() -> None:
    found = log_complement(torch.tensor([[20.0, 0.0, 0.0]]))[0]
    assert found[0].item() == pytest.approx(math.log(2) - 20)
    assert found[1].item() == pytest.approx(-math.exp(-20), rel=1e-4)


def test_memory_grows_with_the_classes_and_not_with_their_square() -> None:
    logits = torch.randn(8, 50, requires_grad=True)
    with Operators() as operators:
        log_complement(logits).sum().backward()
    assert max(operators.largest.values()) == 8 * 50


def test_a_replaced_dropout_keeps_its_rate() -> None:
    model = nn.Sequential(nn.Dropout(0.1), nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.3)))
    replaced = [each for each in replace_dropout(model, nn.Dropout, Dropout).modules() if isinstance(each, nn.Dropout)]
    assert [(type(each), each.p) for each in replaced] == [(Dropout, 0.1), (Dropout, 0.3)]


@pytest.mark.parametrize("rate", [0.99, 0.9985, 0.9999])
def test_a_rate_close_to_1_keeps_some_elements(rate: float) -> None:
    torch.manual_seed(0)
    factors = keep_factors(torch.ones(200_000), rate)
    kept = factors[factors > 0]
    assert factors.isfinite().all() and 0 < len(kept) < 4_000
    assert kept.unique().tolist() == pytest.approx([256 / (256 - min(round(rate * 256), 255))])
    assert factors.mean().item() == pytest.approx(1.0, abs=0.2)
