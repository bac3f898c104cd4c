"""epigram doctor: checks of the installation, the machine and the project."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from epigram.process.display import echo, json_text

if TYPE_CHECKING:
    from epigram.runner.doctor.installation import CheckResult

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def main(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of all checks.")] = False,
) -> None:
    """Check the installation, the machine and the project in this folder, and say how to fix each problem.

    The exit code is that of the first problem, 0 if there is none.

    Example: epigram doctor --json
    """
    from epigram.runner.doctor import installation, machine, project
    from epigram.runner.doctor.installation import exit_status, run_checks

    checks = [
        installation.python,
        installation.packages,
        installation.git,
        machine.disk,
        machine.memory,
        machine.processors,
        machine.gpu,
        machine.bfloat16,
        project.project,
        project.folders,
        project.locks,
        project.data_mirror,
        project.hub_checkpoints,
        project.prefect_server,
    ]
    results = list(run_checks(checks))
    if as_json:
        echo(json_text([asdict(result) for result in results], indent=2))
    elif sys.stdout.isatty():
        _print_table(results)
    else:
        for result in results:
            advice = f"; to fix it: {result.fix}" if result.fix else ""
            echo(f"{result.status}: {result.name}: {result.found}{advice}")
    sys.exit(exit_status(results))


def _print_table(results: list[CheckResult]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from epigram.process.display import printable

    table = Table(box=None)
    for column in ("", "check", "found", "to fix it"):
        table.add_column(column, no_wrap=column in {"", "check"})
    for result in results:
        table.add_row(
            Text(result.status, STYLES[result.status]),
            *(Text(printable(text)) for text in (result.name, result.found, result.fix)),
        )
    Console().print(table)
