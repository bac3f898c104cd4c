"""Tests of the replacement of dropout modules."""

from __future__ import annotations

from torch import nn

from epigram.nn.layers.dropout import Dropout, replace_dropout


def test_a_replaced_dropout_keeps_its_rate() -> None:
    model = nn.Sequential(nn.Dropout(0.1), nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.3)))
    replaced = [each for each in replace_dropout(model, nn.Dropout, Dropout).modules() if isinstance(each, nn.Dropout)]
    assert [(type(each), each.p) for each in replaced] == [(Dropout, 0.1), (Dropout, 0.3)]
