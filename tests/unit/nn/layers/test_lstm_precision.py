"""Tests of the precision of the fused LSTM on a CPU for which oneDNN has none in bfloat16."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from epigram.nn.layers.recurrent import bilstm
from epigram.nn.layers.recurrent.bilstm import fused_lstm
from epigram.nn.layers.recurrent.char_lstm import CharLstm
from epigram.nn.torch_adapter import has_bf16_kernels


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilstm, "has_bf16_kernels", lambda: False)


def rounded(lstm: nn.LSTM) -> nn.LSTM:
    """Return a copy with weights rounded to bfloat16."""
    return copy.deepcopy(lstm).bfloat16().float()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_input_and_weights_are_rounded_and_the_states_are_in_float32(bidirectional: bool) -> None:
    torch.manual_seed(0)
    lstm, x = nn.LSTM(3, 4, batch_first=True, bidirectional=bidirectional), torch.randn(2, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        states, (h, c) = fused_lstm(lstm, x)
    wanted, (wanted_h, wanted_c) = rounded(lstm)(x.bfloat16().float())
    assert states.dtype == torch.float32
    assert torch.equal(states, wanted) and torch.equal(h, wanted_h) and torch.equal(c, wanted_c)
    assert not torch.equal(states, lstm(x)[0])


def test_the_weights_get_the_gradients_of_the_rounded_weights() -> None:
    torch.manual_seed(0)
    lstm, x = nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        fused_lstm(lstm, x)[0].sum().backward()
    other = rounded(lstm)
    other(x.bfloat16().float())[0].sum().backward()
    for weight, wanted in zip(lstm.parameters(), other.parameters(), strict=True):
        assert torch.equal(weight.grad, wanted.grad.bfloat16().float())


def test_float32_is_not_rounded() -> None:
    lstm, x = nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)
    assert torch.equal(fused_lstm(lstm, x)[0], lstm(x)[0])


def test_characters_are_read_in_float32() -> None:
    layer = CharLstm(characters=9, embedding=3, hidden=4, width=5)
    with torch.autocast("cpu", torch.bfloat16):
        last, states = layer.read(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 2]))
    assert (last.dtype, states.dtype) == (torch.float32, torch.float32)


@pytest.mark.skipif(not has_bf16_kernels(), reason="requires a CPU with kernels in bfloat16")
def test_the_kernel_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilstm, "has_bf16_kernels", lambda: True)
    with torch.autocast("cpu", torch.bfloat16):
        states: Tensor = fused_lstm(nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3))[0]
    assert states.dtype == torch.bfloat16
