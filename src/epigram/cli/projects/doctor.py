"""epigram doctor: checks of the installation, the machine and the project."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from epigram.process.display import echo, json_text


def main(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of all checks.")] = False,
) -> None:
    """Check the installation, the machine and the project in this folder, and say how to fix each problem.

    The exit code is the first problem's, 0 if there is none.

    Example: epigram doctor --json
    """
    from epigram.runner.doctor import installation, machine, project
    from epigram.runner.doctor.installation import exit_status, run_checks

    checks = [
        installation.python,
        installation.packages,
        installation.git,
        machine.disk,
        machine.gpu,
        project.project,
        project.hub_checkpoints,
    ]
    results = list(run_checks(checks))
    if as_json:
        echo(json_text([asdict(result) for result in results], indent=2))
    else:
        for result in results:
            advice = f"; to fix it: {result.fix}" if result.fix else ""
            echo(f"{result.status}: {result.name}: {result.found}{advice}")
    sys.exit(exit_status(results))
