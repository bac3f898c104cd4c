"""New rows of a data set in separate tables with the data set's columns.

Texts without labels can also be in txt files, one text per line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import shown
from epigram.core.errors import DataError, ParameterError, ReadOptionError
from epigram.core.files import sha256
from epigram.data.corpus import read_corpus
from epigram.data.csv_rows import SEPARATORS
from epigram.data.decoding import guess_encoding
from epigram.data.packed import file_suffix, open_unpacked
from epigram.data.readers import KINDS
from epigram.data.sources.source import SPLIT_KEYS, File, Source
from epigram.data.tables import MissingColumnError, Options, TextTableReader, detect, formats
from epigram.data.validation import violations
from epigram.data.validation.row_index import Rows
from epigram.data.validation.row_rules import scan_rows
from epigram.data.validation.settings import ValidateSettings
from epigram.text.dataset.text_matching import label_column

TEXT_SUFFIX = ".txt"
COLUMN_OPTIONS = (
    "text",
    "join",
    "label",
    "label_separator",
    "accepted",
    *SPLIT_KEYS,
)  # options of a source that also apply to new files
FORMAT_OPTIONS = ("separator", "quote")  # options of a source that also apply to new files of its format
MAX_HEADER = 1 << 20  # characters of a first line that are examined
INBOX_ADVICE = {"encoding": "set retrain.encoding: {} in params.yaml"}  # instead of the advice on `read` of a source


class SkippedFileError(DataError):
    """Error for a file that is skipped for now; other files can still be read."""


@dataclass(frozen=True)
class NewRows:
    """New rows in `frame`: text, label (or labels), group or time, file, line; None if there are no rows.

    `digests` has the SHA-256 of each file that was read. `skipped` gives the reason for each skipped file.
    """

    frame: pl.DataFrame | None
    digests: dict[Path, str]
    skipped: list[str]


def read_rows(files: Sequence[Path], source: Source, settings: ValidateSettings) -> NewRows:
    """Return the rows of `files`, except rows that `settings` says to drop. Files without rows or labels are skipped.

    Raises DataError for all unreadable files at once, or else for all rows that violate a rule.
    """
    frames: list[pl.DataFrame] = []
    new, failures = NewRows(None, {}, []), []
    for file in files:
        try:
            new.digests[file], frame = _read_unchanged(file, source)
            frames.append(frame)
        except SkippedFileError as error:
            new.skipped.append(str(error))
        except DataError as error:
            failures.append(str(error))
    if failures:
        raise DataError("\n".join(failures))
    if not frames:
        return new
    return replace(new, frame=_drop_invalid(pl.concat(frames, how="diagonal_relaxed"), source, settings))


def _read_unchanged(file: Path, source: Source) -> tuple[str, pl.DataFrame]:
    """Return the SHA-256 and the rows.

    Raises SkippedFileError if there are no rows or no labels, or if the file changes meanwhile.
    """
    before, name = sha256(file), file.parent / shown(file.name)
    try:
        result: pl.DataFrame | DataError = read_file(file, source) if file.stat().st_size else pl.DataFrame()
    except DataError as error:
        result = error
    if sha256(file) != before:
        raise SkippedFileError(f"{name} changed while it was read; the next retraining reads it again")
    if isinstance(result, MissingColumnError) and result.column == _columns(source).get("label", "label"):
        reason, column = str(result).splitlines()[0], shown(result.column)
        raise SkippedFileError(
            f"{reason}; its texts only count for drift; if people have checked its labels, name their column {column}"
        )
    if isinstance(result, DataError):
        raise result
    if result.is_empty():
        raise SkippedFileError(f"{name} has no rows; add rows or remove the file")
    return before, result


def read_texts(file: Path, source: Source) -> list[str]:
    """Return the non-empty texts of one file, with or without labels. Raises DataError if it cannot be read."""
    unlabelled = replace(source, task="tokens")  # the rows of this task need no labels
    if file.suffix.lower() == TEXT_SUFFIX:
        with _inbox_errors(file):
            frame = _read_corpus(file, unlabelled, {"reader": "lines", "encoding": _encoding(file, source)})
    else:
        frame = read_file(file, unlabelled, dict.fromkeys(("label", *SPLIT_KEYS)))
    return frame.filter(pl.col("text") != "")["text"].to_list()


def read_file(file: Path, source: Source, options: Options | None = None) -> pl.DataFrame:
    """Return the rows of a table with their labels, not validated; `options` override the options of the source.

    The file has the encoding that the source names, if any. Raises DataError if the file cannot be read.
    """
    known, suffix = formats(), file_suffix(file)
    if suffix not in known:
        raise DataError(f"{file} has an unsupported file type; expected {', '.join(known)}; convert or remove it")
    reader = known[suffix]["reader"]
    format_known = source.read.get("reader") == reader
    with _inbox_errors(file):
        is_text = issubclass(KINDS[reader], TextTableReader)
        own = _columns(source) | ({"encoding": _encoding(file, source)} if is_text else {})
        if format_known and reader == "csv":
            own |= _csv_format(file, source, own["encoding"])
        elif format_known and "sheet" in source.read:
            own["sheet"] = source.read["sheet"]
        return _read_corpus(file, source, detect(file, own | (options or {})))


@contextmanager
def _inbox_errors(file: Path) -> Iterator[None]:
    """Convert errors about options into errors about a file in the inbox."""
    try:
        yield
    except ReadOptionError as error:
        raise error.with_advice(**INBOX_ADVICE) from None
    except ParameterError as error:  # the base is read with the same options, so they do not fit this file
        raise DataError(f"{file} does not fit the data set: {error}") from None


def _encoding(file: Path, source: Source) -> str:
    return str(source.read.get("encoding") or guess_encoding(file))


def _columns(source: Source) -> Options:
    """Return the options of the source that say which columns of a table have the texts and labels."""
    tabular = source.read.get("reader") in {each["reader"] for each in formats().values()}
    return {name: source.read[name] for name in COLUMN_OPTIONS if tabular and name in source.read}


def needed_columns(source: Source) -> list[str]:
    """Return the columns that a table with new rows of the source must have."""
    own = {"text": "text", "label": "label"} | _columns(source)
    texts = own["text"] if isinstance(own["text"], list) else [own["text"]]
    return [*map(str, texts), str(own["label"]), *(str(own[key]) for key in SPLIT_KEYS if key in own)]


def _csv_format(file: Path, source: Source, encoding: str) -> Options:
    """Return the `quote` of the source, and its `separator` for a csv file; none for a csv file with another one.

    A csv file with a single column has the separator of the source, unless that is a tab.
    """
    own = {name: source.read[name] for name in FORMAT_OPTIONS if name in source.read}
    if file_suffix(file).startswith(".tsv"):
        return {name: value for name, value in own.items() if name == "quote"}
    with open_unpacked(file) as stream, io.TextIOWrapper(stream, encoding=encoding, errors="replace") as lines:
        header = lines.readline(MAX_HEADER)
    separator = own.get("separator", ",")
    has_other = separator not in header and (separator == "\t" or any(each in header for each in SEPARATORS))
    return {} if has_other else own


def _read_corpus(file: Path, source: Source, options: Options) -> pl.DataFrame:
    common = {name: source.read[name] for name in ("names", "replace") if name in source.read}
    file_source = replace(
        source, files=[File(path=file.name, read=common | options)], read={}, splits={}, rows={}, keep=[]
    )
    return read_corpus(replace(file_source, distinct=None, sample=None), file.parent)


def _drop_invalid(frame: pl.DataFrame, source: Source, settings: ValidateSettings) -> pl.DataFrame:
    """Drop the rows that violate a rule with the action drop; raise DataError for violations that are errors."""
    scan = scan_rows(Rows(frame.lazy()), source.task, source.labels)
    actions = violations.actions_of(settings)
    violations.raise_violations(scan.violations, actions, source.labels)
    to_drop = violations.rows_to_drop(scan.violations, actions)
    kept = frame.with_row_index("#row").filter(~pl.col("#row").is_in(to_drop["row"].implode()))
    return kept.select("text", label_column(frame.columns), cs.by_name(*SPLIT_KEYS, require_all=False), "file", "line")
