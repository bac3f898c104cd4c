"""The `epigram` command."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

import epigram
from epigram.cli import flow_commands
from epigram.cli.doctor import doctor
from epigram.cli.init import init
from epigram.core.display import echo, json_text
from epigram.core.errors import InputMissingError, ParameterError, handle_errors, run_and_exit, run_typer
from epigram.core.extras import require
from epigram.inference import signing
from epigram.inference.texts import TABLE_SUFFIXES, decode_lines, read_lines

# Help texts are plain, because Rich markup would read [word|label] as a tag and drop it.
cli = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)

BATCH_SIZE = 1024  # texts per prediction call and write


@cli.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train, compare and use short-text classifiers.

    Example: epigram predict runs/latest/model "a text"
    """
    if version:
        echo(f"epigram {epigram.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        echo(context.get_help())


@cli.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, or one table. Default: one text per line from --file or stdin.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one text per line, or a table.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per text, with all probabilities.")
    ] = False,
    text: Annotated[str, typer.Option(help="Text column of a table.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Output file for a table; its suffix is the format.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    require_signature: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Public key (PEM file); reject a model that it does not verify."),
    ] = None,
) -> None:
    """Predict a label and its probability for each text; labelled words are printed as [word|label].

    With --out, a table (csv, tsv, jsonl, parquet) is read and written with additional columns for the predictions:
    epigram predict MODEL in.csv --text review --out out.csv
    """
    if texts and file is not None:
        raise ParameterError(f"--file is {str(file)!r}, and texts are given as arguments: use one of the two")
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    table = file if file is not None else Path(texts[0]) if texts and len(texts) == 1 else None
    if out is not None:
        if table is None or as_json:
            raise ParameterError("--out needs one table and no --json: epigram predict MODEL in.csv --out out.csv")
        _predict_table(model, table, out, text, force)
        return
    if table is not None and table.suffix.lower() in TABLE_SUFFIXES and table.is_file():
        raise ParameterError(f"{table} is a table: give its text column with --text and a file to write with --out")
    _predict_texts(model, decode_lines(map(os.fsencode, texts), "text") if texts else _read_lines(file), as_json)


def _predict_table(model: Path, table: Path, out: Path, text: str, force: bool) -> None:
    from epigram.inference.predictor import Predictor
    from epigram.inference.tables import predict_table

    predictor = Predictor(model)
    counts = predict_table(predictor, table, out, text=text, force=force)
    echo(f"{out}: {counts.rows:,} rows")
    _report_counts(counts.empty, counts.truncated, predictor.room)


def _predict_texts(model: Path, lines: Iterator[str], as_json: bool) -> None:
    from epigram.inference.predictor import Predictor
    from epigram.inference.words import bracket_labels

    predictor = Predictor(model)
    default = next(iter(predictor.saved.frame.token_labels), "")
    empty = truncated = 0
    while batch := list(islice(lines, BATCH_SIZE)):
        for text, answer in zip(batch, predictor.predict(batch), strict=True):
            if as_json:
                record = {"text": text, "label": answer.label, "probabilities": answer.probabilities}
                words = {"words": [asdict(word) for word in answer.words]} if answer.words else {}
                echo(json_text(record | words))
            else:
                echo(f"{answer.label}\t{answer.probability:.3f}\t{bracket_labels(text, answer.words, default)}")
            empty += not text.strip()
            truncated += answer.truncated
    _report_counts(empty, truncated, predictor.room)


def _read_lines(file: Path | None) -> Iterator[str]:
    """Yield the texts of `file` or stdin, one per line."""
    if file is not None and not file.is_file():
        raise InputMissingError(f"{file} is missing; --file expects a file with one text per line")
    source = file.open("rb") if file is not None else sys.stdin.buffer
    with source:
        name = "stdin line" if file is None else f"{file} line"
        yield from decode_lines(read_lines(source, name), name)


def _report_counts(empty: int, truncated: int, room: int) -> None:
    """Report empty and truncated texts on stderr."""
    if empty:
        echo(f"note: {_count_texts(empty)} empty", file=sys.stderr)
    if truncated:
        echo(f"note: {_count_texts(truncated)} truncated to {room} tokens", file=sys.stderr)


def _count_texts(texts: int) -> str:
    return f"{texts:,} text{'s are' if texts > 1 else ' is'}"


@cli.command()
def export(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    out: Annotated[Path, typer.Argument(help="Folder to create; epigram predict also accepts it.")],
    int8: Annotated[bool, typer.Option("--int8", help="Use 8-bit weights if they are faster on this machine.")] = False,
) -> None:
    """Export a model to ONNX, which runs faster and without epigram."""
    from epigram.inference.export import export as write

    write(model, out, int8=int8)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    echo(f"{out}: exported ({size:.1f} MB); to predict, run: epigram predict {out} TEXT")


@cli.command()
def verify(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    require_signature: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Also check the signature with this public key (PEM file).")
    ] = None,
) -> None:
    """Check that a model's files are unchanged, and print the SHA-256 of its data, code, parameters and weights."""
    from epigram.models import manifest, provenance

    files = manifest.verify(model)
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    for name, digest in provenance.read(model).items():
        echo(f"{name}: {digest}")
    echo(f"{model}: {len(files)} files are unchanged{', signature valid' if require_signature is not None else ''}")


@cli.command()
def sign(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    key: Annotated[Path, typer.Option(help="Private elliptic-curve key (PEM file).")],
) -> None:
    """Sign all files of a model with a private key; check it with --require-signature."""
    echo(f"{signing.sign(model, key)}: written")


@cli.command()
def systems(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with exact parameter counts.")] = False,
) -> None:
    """List all systems with their tasks, view, parameters, paper and description."""
    gc.disable()  # imported objects live until the exit; collecting garbage among them takes 2 seconds
    from epigram.models.listing import CAPTION, compact_number, list_systems

    rows = list(list_systems())
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
    for column in ("paper", "description"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.system, " ".join(row.tasks), row.view, compact_number(row.parameters), row.paper, row.about)
    Console(width=max(Console().width, 120)).print(table)


@cli.command()
def add(
    file: Annotated[Path, typer.Argument(help="Labelled texts as csv, tsv, jsonl or parquet.")],
    text: Annotated[str, typer.Option(help="Text column.")] = "text",
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    split: Annotated[str | None, typer.Option(help="Column with train, dev or test. Default: none.")] = None,
    language: Annotated[Literal["zh", "en"] | None, typer.Option(help="zh or en. Default: detected.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set. Default: the file name.")] = None,
) -> None:
    """Register your own file as a data set. To train on it, run `epigram run --dataset NAME`."""
    from epigram.data.sources.add import add_source
    from epigram.data.sources.source import read_source

    path = add_source(file, name=name or file.stem, text=text, label=label, split=split, language=language)
    source = read_source(path)
    summary = f"{source.rows['all']:,} rows, {len(source.labels)} labels, {source.language}"
    encoding = f", {source.read['encoding']}" if "encoding" in source.read else ""
    quote = ", quotation marks read as plain characters" if source.read.get("quote", "") is None else ""
    echo(f"{path}: added ({summary}{encoding}{quote}); to train on it, run: epigram run --dataset {source.name}")


@cli.command()
def repair() -> None:
    """Check all files of DVC in the current project, and remove the damaged ones."""
    require("epigram repair", "pipeline", "dvc")
    from epigram.runner.dvc.repair import main

    main()


cli.command()(init)
cli.command()(doctor)
flow_commands.register(cli)


@handle_errors
def app() -> None:
    """Run the command line; an error of the user prints one line and sets its exit code."""
    try:
        code = cli(standalone_mode=False)
    except typer.TyperException as error:
        raise ParameterError(f"{error.format_message().rstrip('.')}: see epigram --help") from None
    if code == 130:  # typer's exit code for Ctrl-C
        raise KeyboardInterrupt


def program() -> None:
    """Run `app` and end the process; entry point of the installed command.

    A flow's command waits for Prefect's exit handlers, the others skip all exit handlers, which take half a second.
    """
    if sys.argv[1:2] and sys.argv[1] in flow_commands.COMMANDS:
        run_typer(app)
    else:
        run_and_exit(app)
