"""Maxima over valid tokens: their values, and where their gradients go."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from pithy.layers.masking import masked_max


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_maximum_is_of_valid_tokens_only(dtype: torch.dtype) -> None:
    x = torch.tensor([[[-3.0, 1.0], [-2.0, 0.5], [9.0, 9.0]]], dtype=dtype)
    valid = torch.tensor([[True, True, False]])
    assert_close(masked_max(x, valid), torch.tensor([[-2.0, 1.0]], dtype=dtype))


def test_its_gradient_is_that_of_the_library() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 7, 5, dtype=torch.float64).relu().requires_grad_()  # many equal zeros
    valid = torch.arange(7) < torch.tensor([[7], [5], [2], [1]])
    weight = torch.randn(4, 5, dtype=torch.float64)
    [found] = torch.autograd.grad((masked_max(x, valid) * weight).sum(), x)
    filled = x.masked_fill(~valid.unsqueeze(-1), float("-inf"))
    [wanted] = torch.autograd.grad((filled.amax(1) * weight).sum(), x)
    assert_close(found, wanted)
