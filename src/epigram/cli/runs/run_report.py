"""What a command prints about a finished run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.process.display import echo

if TYPE_CHECKING:
    from epigram.runner.prefect.sweep import Result
    from epigram.runner.runs.publish import Run

WIDTH = 120  # width of a table if stdout is no terminal


def print_run(run: Run, root: Path) -> None:
    """Print the comparison, and the paths of the report and the model."""
    folder = (root / "runs" / run.name).relative_to(root)
    echo(f"{run.executed} of {len(run.stages)} stages executed in {run.wall_seconds:.1f} s")
    if run.summary:
        from epigram.report.terminal import comparison_table

        print_table(comparison_table(run.summary))
        echo(f"report: {folder / 'report.html'}")
        echo(f'model:  {folder / "model"}  (to try it: epigram predict {folder / "model"} "a text")')


def print_failures(results: Iterable[Result]) -> int:
    """Print the error of each failed run of a sweep; return the exit code of the first one, 0 if none failed."""
    failed = [result for result in results if result.code]
    for result in failed:
        echo(f"error: {result.run}: {result.message}", file=sys.stderr)
    return failed[0].code if failed else 0


def print_table(table: Any) -> None:
    """Print a table of Rich, as wide as the terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
