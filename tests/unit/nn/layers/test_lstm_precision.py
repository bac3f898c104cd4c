"""Tests of the precision of the fused LSTM: float32 on a CPU for which oneDNN has none in bfloat16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from epigram.nn.layers import bilstm
from epigram.nn.layers.bilstm import fused_lstm
from epigram.nn.layers.char_lstm import CharLstm


class Recorder(nn.LSTM):
    """LSTM that returns the type of its input, and whether it runs in bfloat16."""

    def forward(self, x: Tensor) -> Any:
        return x.dtype, torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(("supported", "ran"), [(True, (torch.bfloat16, True)), (False, (torch.float32, False))])
def test_bfloat16_is_used_where_there_is_such_a_kernel(
    supported: bool, ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bilstm, "has_bf16_lstm", lambda: supported)
    with torch.autocast("cpu", torch.bfloat16):
        assert fused_lstm(Recorder(2, 2), torch.zeros(1, 3, 2, dtype=torch.bfloat16)) == ran


def test_characters_are_read_in_float32_without_such_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilstm, "has_bf16_lstm", lambda: False)
    layer = CharLstm(characters=9, embedding=3, hidden=4, width=5)
    with torch.autocast("cpu", torch.bfloat16):
        last, states = layer.read(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 2]))
    assert (last.dtype, states.dtype) == (torch.float32, torch.float32)


def test_without_such_a_kernel_the_states_are_those_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilstm, "has_bf16_lstm", lambda: False)
    torch.manual_seed(0)
    lstm, x = nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = fused_lstm(lstm, x)[0]
    assert torch.equal(found, lstm(x)[0])
