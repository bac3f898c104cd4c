"""epigram systems: the list of all systems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from epigram.process.display import echo, json_text
from epigram.process.startup import no_collection

COLUMNS = ("system", "task", "view", "parameters", "description", "paper")
WIDE = 120  # columns of a terminal that has room for the papers


def main(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with exact parameter counts.")] = False,
) -> None:
    """List all systems with their tasks, view, parameters, description and paper; in a pipe, separated by tabs.

    Example: epigram systems --json
    """
    with no_collection():
        from epigram.recipes.listing import CAPTION, compact_number, list_systems

        rows = list(list_systems())
    if as_json:
        echo(json_text([asdict(row) for row in rows], indent=2))
        return
    cells = [
        (row.system, " ".join(row.tasks), row.view, compact_number(row.parameters), row.about, row.paper)
        for row in rows
    ]
    if not sys.stdout.isatty():
        echo("\n".join("\t".join(row) for row in [COLUMNS, *cells]))
        return
    _print_table(cells, CAPTION)


def _print_table(cells: Sequence[tuple[str, ...]], caption: str) -> None:
    """Print the systems at the width of the terminal; a narrow one has no papers."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = COLUMNS if console.width >= WIDE else COLUMNS[:-1]
    table = Table(box=None, caption=caption, caption_justify="left")
    for column in shown:
        table.add_column(column, no_wrap=column == "system", justify="right" if column == "parameters" else "left")
    for row in cells:
        table.add_row(*row[: len(shown)])
    console.print(table)
