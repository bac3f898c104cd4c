"""Gradients of correlation attention in training mode against finite differences, in float64 with a fixed dropout."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from epigram.nn.layers.attention.correlation import CorrelationAttention
from tests.parity.reference.batches import padded, padded_weights, scattered, texts

WIDTH, RATE = 6, 0.25
LENGTHS = {"L≤D": [5, 1, 3], "L>D": [9, 1, 4]}


def fixed(x: Tensor, rate: float) -> Tensor:
    """Return the same factors in every call."""
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(3)) >= rate
    return kept.to(x.dtype) / (1 - rate)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_gradients_of_vectors_weights_and_temperature(lengths: list[int], row_norm: bool, placement: Any) -> None:
    settings: dict[str, Any] = {"row_norm": row_norm, "placement": placement, "learn_temperature": True}
    layer = scattered(CorrelationAttention(width=WIDTH, dropout=RATE, temperature=0.3, **settings)).double().train()
    x, valid = padded(texts(lengths, WIDTH))
    weight = padded_weights([torch.linspace(0.4, 1.0, length).numpy() for length in lengths])
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        state = dict(zip(names, parameters, strict=True))
        out: Tensor = torch.func.functional_call(layer, state, (x, valid, weight))
        return out * valid.unsqueeze(-1)

    with patch("epigram.nn.layers.attention.correlation.keep_factors", fixed):
        assert gradcheck(run, (x.double().requires_grad_(), *(value.detach().requires_grad_() for value in values)))
