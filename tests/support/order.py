"""Order of the test files in a parallel run."""

from __future__ import annotations

import pytest


def long_files_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with those of files that have a test marked slow first, otherwise in the same order."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    return sorted(items, key=lambda item: item.path not in long)
