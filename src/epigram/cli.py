"""The `epigram` command."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from epigram.core.display import echo, json_text
from epigram.core.errors import InputMissingError, ParameterError, handle_errors, run_and_exit
from epigram.inference import signing
from epigram.inference.texts import TABLE_SUFFIXES, decode_lines, read_lines

# Help texts are plain, because Rich markup would read [word|label] as a tag and drop it.
cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__)

AT_ONCE = 1024  # texts per prediction call and write


@cli.command()
def predict(
    model: Annotated[Path, typer.Argument(help="a model's folder, such as runs/latest/model")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="texts, or one table; else one text a line from --file or stdin")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="a file with one text a line, or a table")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON object a text, with all probabilities")] = False,
    text: Annotated[str, typer.Option(help="of a table: the column that holds the text")] = "text",
    out: Annotated[Path | None, typer.Option(help="of a table: the file to write; its suffix is the format")] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite the file of --out")] = False,
    require_signature: Annotated[
        Path | None, typer.Option(metavar="KEY", help="a public key: refuse a model that its owner did not sign")
    ] = None,
) -> None:
    """Predict a label and its probability for each text; labelled words are shown as [word|label].

    With --out, a table (csv, tsv, jsonl, parquet) is read and written with additional columns for the predictions:
    epigram predict MODEL in.csv --text review --out out.csv
    """
    if texts and file is not None:
        raise ParameterError(f"--file was {str(file)!r} and a text stands beside it: give one or the other")
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    table = file if file is not None else Path(texts[0]) if texts and len(texts) == 1 else None
    if out is not None:
        if table is None or as_json:
            raise ParameterError("--out is for one table, without --json: epigram predict MODEL in.csv --out out.csv")
        _predict_table(model, table, out, text, force)
        return
    if table is not None and table.suffix.lower() in TABLE_SUFFIXES and table.is_file():
        raise ParameterError(f"{table} is a table: name the column of its texts and a file to write: --text, --out")
    _predict_texts(model, decode_lines(map(os.fsencode, texts), "text") if texts else _lines(file), as_json)


def _predict_table(model: Path, table: Path, out: Path, text: str, force: bool) -> None:
    from epigram.inference.predictor import Predictor
    from epigram.inference.tables import predict_table

    predictor = Predictor(model)
    counts = predict_table(predictor, table, out, text=text, force=force)
    echo(f"{out}: {counts.rows:,} rows")
    _note(counts.empty, counts.truncated, predictor.room)


def _predict_texts(model: Path, lines: Iterator[str], as_json: bool) -> None:
    from epigram.inference.predictor import Predictor
    from epigram.inference.words import bracket_labels

    predictor = Predictor(model)
    default = next(iter(predictor.saved.frame.token_labels), "")
    empty = truncated = 0
    while batch := list(islice(lines, AT_ONCE)):
        for text, answer in zip(batch, predictor.predict(batch), strict=True):
            if as_json:
                shown = {"text": text, "label": answer.label, "probabilities": answer.probabilities}
                words = {"words": [asdict(word) for word in answer.words]} if answer.words else {}
                echo(json_text(shown | words))
            else:
                echo(f"{answer.label}\t{answer.probability:.3f}\t{bracket_labels(text, answer.words, default)}")
            empty += not text.strip()
            truncated += answer.truncated
    _note(empty, truncated, predictor.room)


def _lines(file: Path | None) -> Iterator[str]:
    """Yield the texts of `file` or stdin, one per line."""
    if file is not None and not file.is_file():
        raise InputMissingError(f"{file} is missing: --file names a text file with one text a line")
    source = file.open("rb") if file is not None else sys.stdin.buffer
    with source:
        name = "stdin line" if file is None else f"{file} line"
        yield from decode_lines(read_lines(source, name), name)


def _note(empty: int, truncated: int, room: int) -> None:
    """Report empty and truncated texts on stderr."""
    if empty:
        echo(f"note: {_counted(empty)} empty", file=sys.stderr)
    if truncated:
        echo(f"note: {_counted(truncated)} truncated: the model reads {room} tokens of a text", file=sys.stderr)


def _counted(texts: int) -> str:
    return f"{texts:,} text{'s are' if texts > 1 else ' is'}"


@cli.command()
def export(
    model: Annotated[Path, typer.Argument(help="a model's folder, such as runs/latest/model")],
    out: Annotated[Path, typer.Argument(help="the new folder; `epigram predict` answers from it too")],
    int8: Annotated[bool, typer.Option("--int8", help="weights in 8 bits, where that is faster here")] = False,
) -> None:
    """Export a model as an ONNX graph, which ONNX Runtime runs faster and without this code."""
    from epigram.inference.export import export as write

    write(model, out, int8=int8)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    echo(f"{out}: ready ({size:.1f} MB); answer with  epigram predict {out} TEXT")


@cli.command()
def verify(
    model: Annotated[Path, typer.Argument(help="a model's folder, such as runs/latest/model")],
    require_signature: Annotated[
        Path | None, typer.Option(metavar="KEY", help="a public key: its owner must have signed the model")
    ] = None,
) -> None:
    """Check that a model's files are unchanged, and print the SHA-256 of its data, code, parameters and weights."""
    from epigram.models import manifest, provenance

    files = manifest.verify(model)
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    for name, digest in provenance.read(model).items():
        echo(f"{name}: {digest}")
    echo(f"{model}: {len(files)} files as they were saved{', and signed' if require_signature is not None else ''}")


@cli.command()
def sign(
    model: Annotated[Path, typer.Argument(help="a model's folder, such as runs/latest/model")],
    key: Annotated[Path, typer.Option(help="the file of a private elliptic curve key in PEM")],
) -> None:
    """Sign every file of a model with a private key, for --require-signature."""
    echo(f"{signing.sign(model, key)}: written")


@cli.command()
def systems(
    as_json: Annotated[bool, typer.Option("--json", help="a JSON list, parameters in full")] = False,
) -> None:
    """List all systems with their tasks, view, parameters, paper and description."""
    gc.disable()  # imported objects live until the exit; collecting garbage among them takes 2 seconds
    from epigram.models.listing import CAPTION, compact, listed

    rows = list(listed())
    gc.freeze()
    if as_json:
        echo(json_text([asdict(row) for row in rows], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, caption=CAPTION, caption_justify="left")
    for column in ("system", "task", "view"):
        table.add_column(column, no_wrap=True)
    table.add_column("parameters", no_wrap=True, justify="right")
    for column in ("paper", "what it is"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.system, " ".join(row.tasks), row.view, compact(row.parameters), row.paper, row.about)
    Console(width=max(Console().width, 120)).print(table)


@cli.command()
def add(
    file: Annotated[Path, typer.Argument(help="csv, tsv, jsonl or parquet with your labelled texts")],
    text: Annotated[str, typer.Option(help="the column that holds the text")] = "text",
    label: Annotated[str, typer.Option(help="the column that holds the label")] = "label",
    split: Annotated[str | None, typer.Option(help="the column that says train, dev or test")] = None,
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="zh or en; guessed where absent")] = None,
    name: Annotated[str | None, typer.Option(help="the data set's name; the file's own where absent")] = None,
) -> None:
    """Register your own file as a data set of this repository; `make run DATASET=NAME` then trains on it."""
    from epigram.data.sources.add import add_source
    from epigram.data.sources.source import read_source

    path = add_source(file, name=name or file.stem, text=text, label=label, split=split, language=language)
    source = read_source(path)
    found = f"{source.rows['all']:,} rows, {len(source.labels)} labels, {source.language}"
    encoding = f", {source.read['encoding']}" if "encoding" in source.read else ""
    quote = ", quotation marks as plain characters" if source.read.get("quote", "") is None else ""
    echo(f"{path}: ready ({found}{encoding}{quote}); train on it with  make run DATASET={source.name}")


@handle_errors
def app() -> None:
    """Run the command line; an error of the user prints one line and sets its exit code."""
    try:
        code = cli(standalone_mode=False)
    except typer.TyperException as error:
        raise ParameterError(f"{error.format_message().rstrip('.')}: see epigram --help") from None
    if code == 130:  # typer's exit code for Ctrl-C
        raise KeyboardInterrupt


def program() -> NoReturn:
    """Run `app` and end the process; entry point of the installed command."""
    run_and_exit(app)


if __name__ == "__main__":
    program()
