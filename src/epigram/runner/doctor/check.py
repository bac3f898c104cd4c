"""Result of one check of the installation, and the run of all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from epigram.core.errors import EpigramError
from epigram.process.exits import exit_code, message

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class CheckResult:
    """What was checked, the result, what was found, and what to do about it."""

    name: str
    status: Status
    found: str
    fix: str = ""
    code: int = 0  # exit code of a problem


def problem(name: str, found: str, fix: str, error: type[EpigramError]) -> CheckResult:
    """Return a problem with the exit code of the class `error`."""
    return CheckResult(name, "problem", found, fix, error.code)


def run_checks(checks: Iterable[Callable[[], Iterable[CheckResult]]]) -> Iterator[CheckResult]:
    """Run the checks one after another; one that fails with an error is a problem."""
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # for example a library that cannot be imported
            yield CheckResult(check.__name__.replace("_", " "), "problem", message(error), "", exit_code(error))


def exit_status(results: Iterable[CheckResult]) -> int:
    """Return the exit code of the first problem, 0 if there is none."""
    return next((result.code for result in results if result.status == "problem"), 0)
