"""Note on a budget that was exceeded."""

from __future__ import annotations

import pytest

from epigram.fitting.stopwatch import Stopwatch


@pytest.mark.parametrize(("seconds", "said"), [(66.0, ""), (66.1, "this took 66 s: "), (123.4, "this took 123 s: ")])
def test_a_time_of_more_than_a_tenth_over_the_budget_is_said(seconds: float, said: str) -> None:
    note = Stopwatch(60.0, 1_000.0, lambda: 1_000.0 + seconds).overrun()
    assert note.startswith(said) and bool(note) == bool(said)
    assert not note or "the budget of 60 s does not limit" in note
