"""epigram predict: labels and probabilities of texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epigram.cli.options import Encoding, Separator, Sheet, TextOfModel, file_options, split_list
from epigram.core.errors import InputMissingError, ParameterError
from epigram.inference import signing
from epigram.inference.hub import local_folder
from epigram.process.display import echo, json_text, one_line
from epigram.text.lines import decode_arguments, decode_lines, read_lines, read_texts

if TYPE_CHECKING:
    from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
    from epigram.inference.tables import RowCounts

TEXT_SUFFIX = ".txt"
OTHER_SUFFIXES = {".xls", ".gz", ".zip"}  # such files are not read
BATCH_SIZE = 1024  # texts per prediction call and write


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a model, for example runs/latest/model, or hub:ORG/NAME.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, or one table. Default: one text per line from --file or stdin.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one text per line, or a table.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per text, with all probabilities.")
    ] = False,
    text: TextOfModel = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file for a table; its suffix is the format. -: csv on stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    min_confidence: Annotated[
        float, typer.Option(metavar="P", help="Probability below which a text gets no label, from 0 to 1.")
    ] = 0.0,
    level: Annotated[
        int | None,
        typer.Option(metavar="N", help="Predict the labels of a level: 1 is the first part of goods/phone."),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps; auto is a GPU for networks.")
    ] = "auto",
    require_signature: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Public key (PEM file); reject a model that it does not verify."),
    ] = None,
) -> None:
    """Predict a label and its probability for each text; labelled words are printed as [word|label].

    With --out, a table is read and written with additional columns for the predictions: from csv, tsv, jsonl, json,
    parquet or xlsx to csv, tsv, jsonl or parquet.

    Example: epigram predict runs/latest/model in.csv --text review --out out.csv
    """
    if texts and file is not None:
        raise ParameterError(f"--file is {str(file)!r}, and texts are given as arguments: use one of the two")
    table_options = {"--text": text, "--force": force or None, "--separator": separator, "--sheet": sheet}
    if out is None and (option := next((name for name, value in table_options.items() if value is not None), None)):
        raise ParameterError(f"{option} needs a table and --out: epigram predict MODEL in.csv --out out.csv")
    model = local_folder(model)
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    named = Path(texts[0]) if texts and len(texts) == 1 and (out is not None or is_file_name(texts[0])) else None
    if named is not None:
        file, texts = named, None
    if out is not None:
        if file is None or as_json:
            raise ParameterError("--out needs one table and no --json: epigram predict MODEL in.csv --out out.csv")
    elif file is not None:
        _check_lines_file(file, named=named is not None)
    from epigram.inference.predictors.open_predictor import open_predictor

    predictor = open_predictor(model, min_confidence=min_confidence, device=device)
    if out is not None and file is not None:
        columns = None if text is None else split_list(text)
        options = file_options(encoding, separator, sheet)
        counts = _predict_table(predictor, file, out, columns, force, options, level)
    else:
        lines = iter(decode_arguments(texts, encoding)) if texts else _read_lines(file, encoding)
        counts = _predict_texts(predictor, lines, as_json, len(texts) if texts else _expected_lines(file), level)
    _report_counts(counts, predictor)


def is_file_name(text: str) -> bool:
    """Return whether a text ends like the name of a table, a text file or another common file with texts."""
    suffix = Path(text).suffix.lower()
    if "\n" in text or not re.fullmatch(r"\.[a-z]+", suffix):
        return False
    from epigram.data.tables import formats

    return suffix in {TEXT_SUFFIX, *formats(), *OTHER_SUFFIXES}


def _predict_table(
    predictor: BasePredictor,
    table: Path,
    out: Path,
    text: list[str] | None,
    force: bool,
    options: dict[str, str],
    level: int | None,
) -> RowCounts:
    from epigram.inference.table_writer import STDOUT
    from epigram.inference.tables import predict_table

    counts = predict_table(predictor, table, out, text=text, force=force, options=options, level=level)
    if out != STDOUT:
        echo(f"{out}: {counts.rows:,} rows")
    return counts


def _predict_texts(
    predictor: BasePredictor, lines: Iterator[str], as_json: bool, total: int | None, level: int | None
) -> RowCounts:
    from epigram.inference.tables import RowCounts, progress

    counts = RowCounts()
    with progress(total, prints=True) as advance:
        while batch := list(islice(lines, BATCH_SIZE)):
            answers = predictor.predict(batch, level=level)
            counts.add(batch, answers, multi=predictor.multi)
            for text, answer in zip(batch, answers, strict=True):
                echo(_answer_line(predictor, text, answer, as_json))
            advance(len(batch))
    return counts


def _answer_line(predictor: BasePredictor, text: str, answer: TextPrediction, as_json: bool) -> str:
    """Return the line that is printed for a text."""
    from epigram.inference.predictors.base_predictor import bracket_labels

    if as_json:
        return json_text({"text": text, **predictor.record(answer)})
    labelled = bracket_labels(text, answer.words, predictor.default_word_label)
    return one_line(f"{answer.label}\t{answer.probability:.3f}\t{labelled}")


def _expected_lines(file: Path | None) -> int | None:
    """Return about how many lines will be read, if a progress bar needs it; None for stdin."""
    from epigram.inference.tables import shows_progress

    return count_lines(file) if file is not None and shows_progress(prints=True) else None


def count_lines(file: Path) -> int:
    """Return the number of line ends of a file."""
    with file.open("rb") as source:
        return sum(block.count(b"\n") for block in iter(lambda: source.read(1 << 20), b""))


def _read_lines(file: Path | None, encoding: str | None) -> Iterator[str]:
    """Yield the texts of `file` or stdin, one per line."""
    if file is not None:
        yield from read_texts(file, encoding)
        return
    with sys.stdin.buffer as source:
        yield from decode_lines(read_lines(source, "stdin line"), "stdin line", encoding)


def _check_lines_file(file: Path, *, named: bool) -> None:
    """Raise an error for a file that cannot be read as lines; the file is `named` as if it were a text."""
    from epigram.data.packed import file_suffix
    from epigram.data.tables import formats

    if file.exists() and not file.is_file():
        raise ParameterError(f"{file} is not a file; for a pipe, use stdin: epigram predict MODEL < {file}")
    if not file.is_file():
        raise InputMissingError(
            f"{file} is missing; expected a file with one text per line (a text that ends like a file name: use stdin)"
        )
    if file_suffix(file) in formats():
        raise ParameterError(f"{file} is a table: give its text column with --text and a file to write with --out")
    if named:
        if file.suffix.lower() != TEXT_SUFFIX:
            raise ParameterError(f"{file} has an unsupported file type; use {TEXT_SUFFIX}, or a table with --out")
        echo(f"note: {file} is read as a file with one text per line", file=sys.stderr)


def _report_counts(counts: RowCounts, predictor: BasePredictor) -> None:
    """Report empty texts, truncated texts and texts without a label on stderr."""
    notes = {
        "empty, without a label": counts.empty,
        f"truncated to {predictor.room} tokens": counts.truncated,
        f"below the minimum confidence of {predictor.min_confidence:g}, without a label": counts.unsure,
    }
    for note, texts in notes.items():
        if texts:
            echo(f"note: {texts:,} text{'s are' if texts > 1 else ' is'} {note}", file=sys.stderr)
