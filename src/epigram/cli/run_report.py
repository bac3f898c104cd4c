"""What a command prints about a finished run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.display import echo
from epigram.core.outcome import Outcome

if TYPE_CHECKING:
    from epigram.runner.runs.publish import Run

WIDTH = 120  # width of a table if stdout is no terminal


def print_run(run: Run, root: Path) -> int:
    """Print the comparison and the report's path, or the failure; return the exit code."""
    folder = (root / "runs" / run.name).relative_to(root)
    if failure := run.failure:
        message = f"{failure.stage} failed (exit {failure.code}): {failure.message}"
        echo(f"error: {message}", file=sys.stderr)
        Outcome.failed(failure.stage, failure.code, message).write()  # for a sweep that has started this run
        return failure.code
    echo(f"{run.executed} of {len(run.stages)} stages executed in {run.wall_seconds:.1f} s")
    if run.summary:
        from epigram.report.terminal import comparison_table

        print_table(comparison_table(run.summary))
        echo(f"report: {folder / 'report.html'}")
        echo(f'model:  {folder / "model"}  (to try it: epigram predict {folder / "model"} "a text")')
    return 0


def exit_if_failed(result: Any, root: Path) -> None:
    """If `result` is the error of a failed run, print it and exit with the code of the stage that failed."""
    from epigram.runner.runs.publish import RunFailedError

    if isinstance(result, RunFailedError):
        sys.exit(print_run(result.run, root))


def print_table(table: Any) -> None:
    """Print a table of Rich, as wide as the terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
