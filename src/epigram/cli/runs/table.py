"""epigram table: the cells of a paper's printed table, measured by runs of the pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from epigram.cli.options import split_list
from epigram.cli.projects.project import find_flow
from epigram.cli.runs.run_report import print_failures
from epigram.core.errors import ParameterError
from epigram.core.machine import count_processors
from epigram.process.display import echo


def main(
    name: Annotated[str, typer.Argument(help="Name of a file in benchmarks/tables, without .yaml.")] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="List the tables and what is not measured, and run nothing.")
    ] = False,
    rows: Annotated[
        str, typer.Option(help="Comma-separated rows to measure. Default: all, the paper's own first.")
    ] = "",
) -> None:
    """Measure the cells of a printed table, or of a figure's sweep, that have no result yet, by runs of the pipeline.

    Each run trains one system, and its cell is added to benchmarks/results/papers as soon as it ends. So the command
    can be stopped at any time: it continues with the cells that are missing, and stages that were finished do not run
    again.

    Example: epigram table transformer_f_2
    """
    root = Path.cwd()
    if list_ and rows:
        raise ParameterError("--rows chooses what is measured, and --list measures nothing; remove one")
    if list_:
        _list(root, name)
        return
    if not name:
        raise ParameterError("the name of a table is missing; epigram table --list shows the names")
    flow = find_flow("table", "flows.table.table")
    from epigram.runner.prefect.execution import execute_sweep
    from epigram.runner.runs import reservations
    from epigram.runner.tables.definition import check_rows, read_table
    from epigram.runner.tables.results import make_trials, missing_cells, read_results

    table = read_table(root, name)
    chosen = check_rows(table, split_list(rows))
    missing = missing_cells(table, read_results(root, name), chosen)
    if not missing:
        echo(f"every cell of {name} is measured" if not chosen else f"every cell of these rows of {name} is measured")
        return
    prefix = reservations.reserve(root, None, name)
    with reservations.release_on_exit(root, prefix):
        results = execute_sweep(make_trials(name, table, missing, root, prefix), flow, prefix, count_processors())
    code = print_failures(results)
    left = len(missing_cells(table, read_results(root, name), chosen))
    echo(f"{name}: {len(missing) - left} of {len(missing)} missing cells measured")
    sys.exit(code)


def _list(root: Path, chosen: str) -> None:
    """Print how many cells of each table are measured, or of the chosen one, and the estimated time of the rest."""
    from epigram.runner.tables.definition import cells, read_table, table_names
    from epigram.runner.tables.results import missing_cells, read_results, remaining_minutes

    for name in [chosen] if chosen else table_names(root):
        table, measured = read_table(root, name), read_results(root, name)
        total, missing = len(list(cells(table))), missing_cells(table, measured)
        minutes = remaining_minutes(table, missing)
        time = f", about {minutes} minutes left on one core" if missing else ""
        echo(f"{name}: {table.title}: {total - len(missing)} of {total} cells measured{time}")
