"""epigram add: a file of the user as a data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

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
    split_list,
)
from epigram.core.errors import ParameterError
from epigram.process.display import echo


def main(
    file: Annotated[Path, typer.Argument(help=f"Labelled texts: {TABLES}, or a folder.")],
    text: Text = "text",
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    split: Annotated[
        str | None, typer.Option(help="Column with train, dev or test. Default: detected by name or content.")
    ] = None,
    no_split: Annotated[bool, typer.Option("--no-split", help="Use no column as split.")] = False,
    group: Group = None,
    time: Time = None,
    slices: Slice = "",
    label_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Separator of several labels of a text, or [] for lists.")
    ] = None,
    ordered: Ordered = None,
    hierarchy: Hierarchy = "",
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="zh or en. Default: detected.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set. Default: the file name.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the data set, if it was added before.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
) -> None:
    """Register your own file as a data set. To train on it, run `epigram run --dataset NAME`.

    If params.yaml names an embedded corpus, it gets the name of the data set in its place, and the systems of a new
    project are replaced by the best one by experience for this language and number of rows, and the linear SVM.

    Example: epigram add reviews.csv --text review --label stars
    """
    from epigram.core.settings import dataset_of
    from epigram.data.packed import file_stem
    from epigram.data.sources.add import add_source
    from epigram.data.sources.source import read_source
    from epigram.runner.retraining.inbox import invitation
    from epigram.runner.workspace.first_systems import write_first_systems
    from epigram.runner.workspace.settings import use_dataset

    if no_split and split is not None:
        raise ParameterError(f"--split is {split!r}, and --no-split is given: use one of the two")
    added = add_source(
        file,
        name=name or file_stem(file),
        text=split_list(text),
        label=label,
        split="" if no_split else split,
        group=group,
        time=time,
        slices=split_list(slices),
        label_separator=label_separator,
        ordered=None if ordered is None else split_list(ordered),
        hierarchy=hierarchy,
        language=language,
        replace=replace,
        options=file_options(encoding, separator, sheet),
    )
    source = read_source(added.path)
    labels = "labels of words" if source.task == "tokens" else f"{len(source.labels)} labels"
    summary = f"{added.rows:,} rows, {labels}, {source.language}"
    encoding = f", {source.read['encoding']}" if "encoding" in source.read else ""
    named = {"\t": "tab"}.get(source.read.get("separator", ","), source.read.get("separator", ","))
    parts = "" if named == "," else f", separator {named}"
    quote = ", quotation marks read as plain characters" if source.read.get("quote", "") is None else ""
    detected = f", splits of the column {source.read['split']!r}" if split is None and "split" in source.read else ""
    described = f"{summary}{encoding}{parts}{quote}{detected}"
    echo(f"{added.path}: added ({described}); to train on it, run: epigram run --dataset {source.name}")
    for note in added.notes:
        echo(f"note: {note}", file=sys.stderr)
    if (params := Path("params.yaml")).is_file():
        chosen = use_dataset(params, source.name)
        for told in ([chosen] if chosen else []) + write_first_systems(
            params, source, source.rows.get("train", added.rows)
        ):
            echo(told)
        if dataset_of(params) == source.name and (line := invitation(Path(), source)):
            echo(line)
