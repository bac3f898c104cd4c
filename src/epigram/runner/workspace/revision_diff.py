"""Comparison of the results of two git revisions: python -m epigram.runner.workspace.revision_diff REV [OTHER].

The page runs/diff.html shows the output of `dvc metrics diff`, `dvc params diff` and `dvc plots diff`, and opens
offline. Without OTHER, REV is compared with the working tree. The results come from DVC's cache, or else its remote.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from epigram.core.errors import InputMissingError
from epigram.core.files import write_text
from epigram.process.display import echo
from epigram.process.exits import handle_errors, run_typer
from epigram.report.page import Change, render_difference
from epigram.runner import child_process, git

TREE = "workspace"  # DVC's name for the working tree
PAGE = Path("runs/diff.html")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@handle_errors
def main(
    rev: Annotated[str, typer.Argument(help="Commit, branch or tag with a committed dvc.lock, for example HEAD~1.")],
    other: Annotated[str, typer.Argument(help="Second commit, branch or tag. Default: the working tree.")] = "",
) -> None:
    """Write runs/diff.html: the metrics, parameters and plots that differ between two revisions."""
    root, new = Path.cwd(), other or TREE
    revisions = [rev, other] if other else [rev]
    for name in revisions:
        git.resolve(root, name)
    plots = _plots(root, [rev, new], _dvc_diff(root, "plots", revisions))
    metrics, params = (_changes(_dvc_diff(root, what, revisions)) for what in ("metrics", "params"))
    write_text(root / PAGE, render_difference(rev, new, metrics, params, plots))
    echo(f"{len(metrics)} metrics and {len(params)} parameters differ: {PAGE}")


def _dvc_diff(root: Path, what: str, revisions: list[str]) -> dict[str, Any]:
    """Return the output of `dvc WHAT diff`. Raises InputMissingError with DVC's message."""
    command = [sys.executable, "-m", "dvc", what, "diff", "--json", *revisions]
    env = child_process.utf8(os.environ)
    result = subprocess.run(command, cwd=root, env=env, capture_output=True, encoding="utf-8", check=False)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()] or ["no message"]
        raise InputMissingError(f"dvc {what} diff failed: {lines[0].removeprefix('ERROR: ')}")
    return dict(json.loads(result.stdout))


def _plots(root: Path, revisions: list[str], output: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specification of every plot. Raises InputMissingError for a revision without plots."""
    plots = {name: plot for name, drawn in output.get("data", {}).items() for plot in drawn if plot["type"] == "vega"}
    shown = {name for plot in plots.values() for label in plot["revisions"] for name in label.split(",")}
    for name in revisions:
        if name not in shown:
            raise InputMissingError(
                f"no results of {name} in {root} or its DVC remote; check out {name}, run `dvc repro`, commit "
                "dvc.lock and run `dvc push`"
            )
    return {name: {**plot["content"], "title": ""} for name, plot in plots.items()}


def _changes(output: dict[str, Any]) -> list[Change]:
    return [
        Change(name=name, old=values.get("old"), new=values.get("new"), change=values.get("diff"))
        for file in output.values()
        for name, values in sorted(file.items())
    ]


if __name__ == "__main__":
    run_typer(app)
