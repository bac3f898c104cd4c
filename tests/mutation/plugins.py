"""Pytest plugins that record which lines each test executes, and which test fails first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Plugins of other packages are disabled: loading them takes longer than most tests.
ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
OPTIONS = ["-q", "--tb=short", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]


class FirstFailure:
    """Plugin that runs only the tests in `ranks`, ordered by rank, and writes the first failure to `file`."""

    def __init__(self, ranks: dict[str, int], file: Path) -> None:
        self.ranks, self.file = ranks, file

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and sort the tests."""
        items[:] = sorted((item for item in items if item.nodeid in self.ranks), key=lambda x: self.ranks[x.nodeid])

    def pytest_collectreport(self, report: Any) -> None:
        """Record a file that cannot be imported."""
        if report.failed:
            self._note(report.nodeid, report.longreprtext)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record a failed test."""
        if report.failed:
            self._note(report.nodeid, report.longreprtext)

    def _note(self, nodeid: str, text: str) -> None:
        reason = next((line[2:].strip() for line in text.splitlines() if line.startswith("E ")), text[-200:])
        if not self.file.exists():
            self.file.write_text(json.dumps({"test": nodeid, "reason": reason[:300]}))


class Contexts:
    """Plugin that sets coverage's context to the running test or fixture, and records outcomes, times and fixtures.

    The lines that a fixture of a wider scope executes count for every test that uses it.
    """

    def __init__(self, measured: Any) -> None:
        self.measured, self.current = measured, ""
        self.tests: dict[str, dict[str, Any]] = {}

    def switch(self, context: str) -> None:
        """Set the context in this process and in the processes that it will start."""
        self.current = os.environ["MUTATION_CONTEXT"] = context
        self.measured.switch_context(context)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Set the context to the test."""
        names = sorted(getattr(item, "fixturenames", []))
        self.tests[item.nodeid] = {"seconds": 0.0, "outcome": "passed", "fixtures": names}
        self.switch(item.nodeid)
        try:
            return (yield)
        finally:
            self.switch("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Set the context to the fixture if several tests share it."""
        if fixturedef.scope == "function":
            return (yield)
        before = self.current
        self.switch(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.switch(before)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record outcome and time."""
        test = self.tests[report.nodeid]
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        if report.outcome != "passed":
            test["outcome"] = report.outcome
