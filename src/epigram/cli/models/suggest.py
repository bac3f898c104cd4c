"""epigram suggest: texts worth labelling next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from epigram.cli.options import Encoding, Separator, Sheet, TextOfModel, file_options, split_list
from epigram.core.errors import ParameterError
from epigram.process.display import echo


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    pool: Annotated[Path, typer.Argument(help="Texts without labels: a file with one text per line, or a table.")],
    out: Annotated[Path, typer.Option(help="Table to write; its suffix is the format.")],
    text: TextOfModel = None,
    count: Annotated[int, typer.Option(metavar="N", help="Number of texts.")] = 50,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    form: Annotated[
        Literal["table", "label-studio"],
        typer.Option("--format", help="label-studio: tasks with predictions, as a .json file."),
    ] = "table",
) -> None:
    """Choose the texts that are most worth labelling next: uncertain for the model, and different from each other.

    Example: epigram suggest runs/latest/model more.txt --out next.csv
    """
    from epigram.core.files import write_json
    from epigram.core.spreadsheet import escape_formulas
    from epigram.inference.labelling_tasks import label_studio_tasks
    from epigram.inference.predictors.open_predictor import open_predictor
    from epigram.inference.suggestions import suggest
    from epigram.inference.table_writer import SEPARATORS, SUFFIXES, as_columns, check_output, table_writer

    if count < 1:
        raise ParameterError(f"--count is {count}; expected at least 1")
    as_tasks = form == "label-studio"
    check_output(out, force=force, suffixes=(".json",) if as_tasks else SUFFIXES)
    columns = None if text is None else split_list(text)
    predictor = open_predictor(model)
    found = suggest(predictor, pool, columns, count, file_options(encoding, separator, sheet))
    rows, escaped = found.rows, 0
    if as_tasks:
        write_json(out, label_studio_tasks(found, predictor))
    else:
        if out.suffix.lower() in SEPARATORS:
            rows, escaped = escape_formulas(as_columns(rows))
        with table_writer(out) as write:
            write(rows)
    few = f"; {pool} has no further text that differs enough" if rows.height < count else ""
    echo(f"{out}: {rows.height:,} text{'s' if rows.height > 1 else ''} to label{few}")
    if escaped:
        echo(
            f"note: {escaped:,} cells that begin with =, +, - or @ have an apostrophe before them, so that no "
            "spreadsheet runs them; a .jsonl or .parquet file has them unchanged",
            file=sys.stderr,
        )
