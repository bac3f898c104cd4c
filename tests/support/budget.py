"""Number of examples per property test, ten times as many with HYPOTHESIS_PROFILE=drill, and cheap text strategies."""

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
    """Return the settings of a property test; without deadlines, so that a busy machine causes no failure."""
    unasked = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=number * SCALE, deadline=None, suppress_health_check=unasked, database=None)
