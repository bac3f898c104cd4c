"""Small data for MHAL's parity tests."""

from __future__ import annotations

from epigram.nn.layers.types import DataSpec

WIDTH, CHARACTERS = 8, 11
GOLD = [0, 1, 1, 0, 1]
SAME = DataSpec(
    vocabulary=13, classes=3, max_length=12, characters=CHARACTERS, labels=("N", "O", "P"), token_labels=("O", "N", "P")
)
