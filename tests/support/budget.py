"""How many cases a property is tried on, ten times as many with HYPOTHESIS_PROFILE=drill; texts quick to draw."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.text_samples import PIECES

SCALE = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "drill" else 1
WORDS = [
    *PIECES,
    *"好差店bé'\".,:!？(){}$`;&|<>\\/#*\x1b\r\v\u2028\u202e",
    "good",
    "正面",
    "[UNK]",
    "  ",
    "½",
    "Ⅷ",
    "\ud7ff",
]

texts = st.lists(st.sampled_from(WORDS), max_size=10).map("".join)


def cases(number: int) -> Any:
    """Settings of a property test; a busy machine is no fault of the code."""
    unasked = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=number * SCALE, deadline=None, suppress_health_check=unasked, database=None)
