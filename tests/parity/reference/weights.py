"""Parameters of recurrent layers in the form that the references take."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tests.parity.reference.common import Array
from tests.parity.reference.lstm import Lstm


def array(tensor: Tensor) -> Array:
    """Return a tensor as a float64 array."""
    return tensor.detach().double().numpy()


def lstm_of(layer: Any) -> Lstm:
    """Return the weights of one direction of an LSTM layer, or of an LSTM cell."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    suffix = "_l0" if hasattr(layer, "weight_ih_l0") else ""
    inputs, states, first, second = (array(getattr(layer, name + suffix)) for name in names)
    return Lstm(inputs, states, first + second)
