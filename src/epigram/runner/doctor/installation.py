"""Checks of the installation: versions of packages, and what the extras add."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal

from packaging.requirements import Requirement
from packaging.version import Version

import epigram
from epigram.core.errors import EpigramError, InputMissingError, ParameterError
from epigram.core.extras import install_command
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
        except Exception as error:  # such as a library that cannot be imported
            yield CheckResult(check.__name__.replace("_", " "), "problem", message(error), "", exit_code(error))


def exit_status(results: Iterable[CheckResult]) -> int:
    """Return the exit code of the first problem, 0 if there is none."""
    return next((result.code for result in results if result.status == "problem"), 0)


MIN_GIT = Version("2.20")  # the first version in which `git worktree` removes what a killed process left
OPTIONAL = ("onnx", "openvino", "ray", "postgres", "sql", "s3", "signing")  # extras of which nothing need be installed


def python() -> Iterator[CheckResult]:
    """Check the version of Python, which pip has compared with `requires-python`."""
    yield CheckResult("python", "ok", f"{platform.python_version()}, with epigram {epigram.__version__}")


def packages() -> Iterator[CheckResult]:
    """Compare the versions of the installed packages with the tested ones, which epigram's metadata requires."""
    yield from _compare("packages", _required(""), install_command())
    pipeline = list(_required("pipeline"))
    if not any(map(_installed, pipeline)):
        yield CheckResult(
            "pipeline",
            "warning",
            "not installed; only predict and the Python API work",
            install_command("pipeline"),
        )
    else:
        yield from _compare("pipeline", pipeline, install_command("pipeline"))
    for extra in OPTIONAL:
        requirements = [each for each in _required(extra) if _installed(each)]
        yield from _compare(extra, requirements, install_command(extra))


def _required(extra: str) -> list[Requirement]:
    """Return the requirements of epigram that `extra` adds; the core dependencies if it is empty."""
    found = map(Requirement, requires("epigram") or [])
    return [
        each
        for each in found
        if (each.marker is None and not extra)
        or (each.marker is not None and each.marker.evaluate({"extra": extra}) and "extra" in str(each.marker))
    ]


def _installed(requirement: Requirement) -> str:
    """Return the installed version of a package, empty if it is not installed."""
    try:
        return version(requirement.name)
    except PackageNotFoundError:
        return ""


def _compare(name: str, requirements: list[Requirement], fix: str) -> Iterator[CheckResult]:
    """Yield a problem for each missing package and a warning for each other version, otherwise one line."""
    good = True
    for each in requirements:
        installed = _installed(each)
        if not installed:
            good = False
            yield problem(name, f"{each.name} is not installed", fix, ParameterError)
        elif not each.specifier.contains(installed, prereleases=True):
            good = False
            yield CheckResult(name, "warning", f"{each.name} {installed}; tested with {each.name}{each.specifier}", fix)
    if good and requirements:
        yield CheckResult(name, "ok", f"{len(requirements)} in the tested version")


def git() -> Iterator[CheckResult]:
    """Check that git is installed."""
    program = shutil.which("git")
    if program is None:
        yield problem("git", "not installed", "install git 2.20 or later", InputMissingError)
        return
    words = subprocess.run([program, "--version"], capture_output=True, encoding="utf-8", check=True).stdout.split()
    found = Version(".".join(words[2].split(".")[:2]))
    if found < MIN_GIT:
        yield CheckResult("git", "warning", f"version {words[2]}", f"install git {MIN_GIT} or later")
    else:
        yield CheckResult("git", "ok", words[2])
