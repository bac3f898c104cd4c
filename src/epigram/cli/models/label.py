"""epigram label: labels for texts without any."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from epigram.cli.options import Encoding, Separator, Sheet, Text, file_options, split_list
from epigram.process.display import echo


def main(
    texts: Annotated[Path, typer.Argument(help="Texts: a file with one text per line, or a table.")],
    labels: Annotated[
        Path, typer.Option(help="File with one label per line; a description may follow: sports: games and players.")
    ],
    out: Annotated[Path, typer.Option(help="Table to write; its suffix is the format.")],
    text: Text = "text",
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="Language. Default: detected.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
) -> None:
    """Label texts by their similarity to the names and descriptions of the labels; a pretrained encoder is needed.

    The table gets the columns label, confidence and labelled_by, by which epigram fit and epigram suggest know that a
    machine has labelled a text.

    Example: epigram label texts.txt --labels labels.txt --out labelled.csv
    """
    from epigram.labelling.label import label_table
    from epigram.labelling.label_list import read_labels

    found = label_table(
        texts,
        read_labels(labels),
        out,
        text=split_list(text),
        language=language,
        force=force,
        options=file_options(encoding, separator, sheet),
    )
    without = sum(name is None for name in found.labels)
    note = f", {without:,} of them without a label" if without else ""
    echo(f"{out}: {len(found.labels):,} texts{note}")
