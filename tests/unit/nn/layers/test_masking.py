"""Tests of max pooling over valid tokens and in windows, values and gradients, and of masks of known lengths."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import max_pool1d
from torch.testing import assert_close

from epigram.nn.layers.pooling import halve, key_mask, masked_max, valid_positions


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


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
def test_halving_and_its_gradient_are_those_of_the_library(length: int) -> None:
    torch.manual_seed(length)
    rows = torch.randn(3, length, 4, dtype=torch.float64)  # no ties: the library may select another of equal values
    x = rows.transpose(1, 2).requires_grad_()
    valid = torch.arange(length) < torch.tensor([[length], [max(1, length - 2)], [1]])
    weight = torch.randn(3, 4, -(-length // 2), dtype=torch.float64)
    pooled, kept = halve(x, valid)
    filled = x.masked_fill(~valid.unsqueeze(1), float("-inf"))
    wanted = max_pool1d(filled, 3, stride=2, padding=1).masked_fill(~kept.unsqueeze(1), 0.0)
    assert_close(pooled, wanted)
    [found] = torch.autograd.grad((pooled * weight).sum(), x)
    [gradient] = torch.autograd.grad((wanted * weight).sum(), x)
    assert_close(found, gradient)


def test_of_equal_ones_in_a_window_one_takes_the_whole_gradient() -> None:
    x = torch.zeros(1, 1, 5, requires_grad=True)
    halve(x, torch.ones(1, 5, dtype=torch.bool))[0].sum().backward()
    assert x.grad is not None and x.grad.sum() == 3


@pytest.mark.parametrize("full", [True, False, None])
def test_keys_need_a_mask_unless_all_are_valid(full: bool | None) -> None:
    valid = torch.tensor([[True, True], [True, full is not False]])
    assert (key_mask(valid, full) is None) is (full is not False)
    assert (key_mask(valid) is None) is (full is not False)


@pytest.mark.parametrize("count", [4, None])
def test_positions_of_valid_tokens(count: int | None) -> None:
    valid = torch.tensor([[True, True, True], [True, False, False]])
    assert [found.tolist() for found in valid_positions(valid, count)] == [[0, 0, 0, 1], [0, 1, 2, 0]]
