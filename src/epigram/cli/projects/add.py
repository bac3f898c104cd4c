"""epigram add: a file of the user as a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from epigram.process.display import echo


def main(
    file: Annotated[Path, typer.Argument(help="Labelled texts as csv, tsv, jsonl or parquet.")],
    text: Annotated[str, typer.Option(help="Text column.")] = "text",
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    split: Annotated[str | None, typer.Option(help="Column with train, dev or test. Default: none.")] = None,
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="zh or en. Default: detected.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set. Default: the file name.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the data set, if it was added before.")] = False,
) -> None:
    """Register your own file as a data set. To train on it, run `epigram run --dataset NAME`.

    If params.yaml names an embedded corpus, it gets the name of the data set in its place. If a pretrained sentence
    encoder for the language is installed, params.yaml gets the systems that use it, unless it has such systems already.

    Example: epigram add reviews.csv --text review --label stars
    """
    from epigram.data.sources.add import add_source
    from epigram.data.sources.source import read_source
    from epigram.runner.workspace.sentence_encoders import add_systems
    from epigram.runner.workspace.settings import use_dataset

    path = add_source(
        file, name=name or file.stem, text=text, label=label, split=split, language=language, replace=replace
    )
    source = read_source(path)
    summary = f"{source.rows['all']:,} rows, {len(source.labels)} labels, {source.language}"
    encoding = f", {source.read['encoding']}" if "encoding" in source.read else ""
    quote = ", quotation marks read as plain characters" if source.read.get("quote", "") is None else ""
    echo(f"{path}: added ({summary}{encoding}{quote}); to train on it, run: epigram run --dataset {source.name}")
    if (params := Path("params.yaml")).is_file():
        for told in (use_dataset(params, source.name), add_systems(params, source.language)):
            if told is not None:
                echo(told)
