"""A minimum that a report shows is not above the real one."""

from __future__ import annotations

import pytest

from epigram.evaluation.comparison.formats import floored


@pytest.mark.parametrize(
    ("value", "text"), [(0.99998, "0.9999"), (1.0, "1.0000"), (0.5, "0.5000"), (0.12349, "0.1234")]
)
def test_a_minimum_is_never_rounded_up(value: float, text: str) -> None:
    assert floored(value) == text
