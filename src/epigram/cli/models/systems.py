"""epigram systems: the list of all systems."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from epigram.process.display import echo, json_text
from epigram.process.startup import no_collection


def main(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with exact parameter counts.")] = False,
) -> None:
    """List all systems with their tasks, view, parameters, paper and description.

    Example: epigram systems --json
    """
    with no_collection():
        from epigram.recipes.listing import CAPTION, compact_number, list_systems

        rows = list(list_systems())
    if as_json:
        echo(json_text([asdict(row) for row in rows], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, caption=CAPTION, caption_justify="left")
    for column in ("system", "task", "view"):
        table.add_column(column, no_wrap=True)
    table.add_column("parameters", no_wrap=True, justify="right")
    for column in ("paper", "description"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.system, " ".join(row.tasks), row.view, compact_number(row.parameters), row.paper, row.about)
    Console(width=max(Console().width, 120)).print(table)
