"""How weights start."""

from __future__ import annotations

from torch import nn


def glorot(module: nn.Module) -> None:
    """Every matrix of `module` from U(−a, a) with a = √(6 / (rows + columns)), every bias 0.

    Glorot and Bengio (2010), Eq. 16.
    """
    for weight in module.parameters():
        if weight.dim() == 2:
            nn.init.xavier_uniform_(weight)
        else:
            nn.init.zeros_(weight)
