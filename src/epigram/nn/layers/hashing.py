"""Fixed hash of integers: pseudo-random values that are the same on every machine and in every batch."""

from __future__ import annotations

from torch import Tensor

# SplitMix64's multipliers as signed 64-bit numbers
_MIX = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


def mix(x: Tensor) -> Tensor:
    """Hash each int64 element of `x` to an int64 value (SplitMix64's mixing steps, with arithmetic shifts)."""
    x = x * _MIX[0]
    x = (x ^ (x >> 30)) * _MIX[1]
    x = (x ^ (x >> 27)) * _MIX[2]
    return x ^ (x >> 31)
