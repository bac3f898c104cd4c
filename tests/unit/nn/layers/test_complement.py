"""Tests of the log-probability of all classes but one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from epigram.nn.layers.complement import log_complement
from tests.support.operators import Operators


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
