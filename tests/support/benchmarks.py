"""Rows of benchmark results, for tests."""

from __future__ import annotations

from typing import Any

from benchmarks.rows import Measured, Row

SLOW, FAST = Measured((2.0, 4.0, 5.0)), Measured((7.0, 8.0, 9.0))


def row(**changes: Any) -> Row:
    values = {"work": "w", "unit": "texts/s", "ours": Measured((9.0, 10.0, 20.0)), "peers": {"a": SLOW, "b": FAST}}
    return Row(**{**values, **changes})
