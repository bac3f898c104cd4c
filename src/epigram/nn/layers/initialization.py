"""Initialization of weights."""

from __future__ import annotations

from torch import nn


def glorot(module: nn.Module) -> None:
    """Draw every matrix of `module` from U(−a, a) with a = √(6 / (rows + columns)); set all other parameters to 0.

    Glorot and Bengio (2010), Eq. 16.
    """
    for weight in module.parameters():
        if weight.dim() == 2:
            nn.init.xavier_uniform_(weight)
        else:
            nn.init.zeros_(weight)
