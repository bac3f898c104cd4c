"""Number of examples that a test session generated, from Hypothesis' statistics."""

from __future__ import annotations

import re
from typing import Any

COUNTED = re.compile(r"(\d+) passing, (\d+) failing")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line at the end of the session; test reports carry the counts of other processes."""
    told = (vars(report).get("_hypothesis_stats") for kind in terminalreporter.stats.values() for report in kind)
    found = [COUNTED.findall(str(each)) for each in told if each]
    cases = sum(int(number) for counts in found for pair in counts for number in pair)
    if cases:
        terminalreporter.write_line(f"{cases:,} generated cases in {len(found):,} property tests")
