"""How many cases a session generated, by Hypothesis' own count."""

from __future__ import annotations

import re
from typing import Any

COUNTED = re.compile(r"(\d+) passing, (\d+) failing")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line at the end of the session; reports bring the counts of other processes along."""
    told = (vars(report).get("_hypothesis_stats") for kind in terminalreporter.stats.values() for report in kind)
    found = [COUNTED.findall(str(each)) for each in told if each]
    cases = sum(int(number) for counts in found for pair in counts for number in pair)
    if cases:
        terminalreporter.write_line(f"{cases:,} generated cases in {len(found):,} property tests")
