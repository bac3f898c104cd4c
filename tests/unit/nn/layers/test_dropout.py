"""Tests of the replacement of dropout modules, and of rates close to 1."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from epigram.nn.layers.dropout import Dropout, keep_factors, replace_dropout


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
