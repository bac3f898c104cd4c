"""epigram fit: the best model of a table of texts, without a project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from epigram.cli.options import (
    TABLES,
    Encoding,
    Group,
    Hierarchy,
    Ordered,
    Separator,
    Sheet,
    Slice,
    Text,
    Time,
    file_options,
    parse_value,
    split_list,
)
from epigram.process.display import echo


def main(
    file: Annotated[Path, typer.Argument(help=f"Labelled texts: {TABLES}, or a folder.")],
    out: Annotated[Path, typer.Option(help="New folder of the model; its report is beside it, as FOLDER.html.")],
    text: Text = "text",
    pair: Annotated[
        bool, typer.Option("--pair", help="The two columns of --text are a pair: question,answer.")
    ] = False,
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    group: Group = None,
    time: Time = None,
    slices: Slice = "",
    ordered: Ordered = None,
    hierarchy: Hierarchy = "",
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time until the model is written.")] = "1m",
    metric: Annotated[str, typer.Option(help="Score that chooses the model, as `metric` in params.yaml.")] = "auto",
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="Language. Default: detected.")] = None,
    mask: Annotated[str, typer.Option(help="Comma-separated: email, phone, id; hidden in the report.")] = "",
    neighbors: Annotated[
        bool, typer.Option("--neighbors", help="Write the training texts into the folder too, for `epigram explain`.")
    ] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
) -> None:
    """Train classifiers on a table of labelled texts within a time, and write the best one to a new folder.

    The best system by experience is trained first; what is left of the time goes to others, and held-out texts choose.
    A column with the names of splits is used. No project, git, DVC or Prefect is needed.

    Example: epigram fit reviews.csv --text review --label stars --out model
    """
    echo(f"reading {file}", file=sys.stderr, flush=True)  # the imports below take seconds
    from epigram.fitting.fitted_model import check_target

    report = check_target(out)
    from epigram.core import masking
    from epigram.fitting.fit import fit

    options, score = file_options(encoding, separator, sheet), parse_value("--metric", metric)
    columns: dict[str, Any] = {"text": split_list(text), "label": label, "group": group, "time": time}
    order, kinds = None if ordered is None else split_list(ordered), split_list(mask)
    masking.mask(kinds)  # also in the messages of errors
    columns |= {"ordered": order, "hierarchy": hierarchy, "slices": split_list(slices)}
    columns |= {"language": language, "mask": kinds}
    fit(file, **columns, pair=pair, budget=budget, metric=score, options=options, neighbors=neighbors).save(out)
    echo(f'report: {report}\nmodel:  {out}  (to try it: epigram predict {out} "a text")')
