"""Options with which a new file is read: the reader for its suffix, its encoding, and the base's columns and format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epigram.core.errors import DataError
from epigram.data.reading.decoding import encoding_of
from epigram.data.sources.add import READER_BY_SUFFIX
from epigram.data.sources.source import Source

COLUMN_OPTIONS = ("text", "join", "label", "label_separator")  # options of a source that also apply to new files
MAX_HEADER = 1 << 20  # characters of a first line that are examined


def reader_options(file: Path, source: Source) -> dict[str, Any]:
    """Return the `read` options for a new file of `source`. Raises DataError for an unsupported file type."""
    if file.suffix.lower() not in READER_BY_SUFFIX:
        raise DataError(
            f"{file} has an unsupported file type; expected {', '.join(READER_BY_SUFFIX)}; convert or remove it"
        )
    base = source.read.get("reader")
    tabular = base in {kind["reader"] for kind in READER_BY_SUFFIX.values()}
    columns = {name: source.read[name] for name in COLUMN_OPTIONS if tabular and name in source.read}
    values = READER_BY_SUFFIX[file.suffix.lower()] | columns
    if values["reader"] != "parquet":
        values |= encoding_of(file)
    if values["reader"] == base == "csv":
        values |= _csv_format(file, source, values.get("encoding", "utf-8"))
    return values


def _csv_format(file: Path, source: Source, encoding: str) -> dict[str, Any]:
    """Return the `quote` of the source, and its `separator` for a csv file.

    A csv file may have commas although the source has another separator. Then its first line has commas and not that
    separator, or no tabs if that is the separator, and the source's `quote` does not apply either.
    """
    own: dict[str, Any] = {name: source.read[name] for name in ("separator", "quote") if name in source.read}
    separator = own.get("separator", ",")
    if file.suffix.lower() == ".tsv":
        return {name: value for name, value in own.items() if name == "quote"}
    with file.open(encoding=encoding, errors="replace") as lines:
        header = lines.readline(MAX_HEADER)
    has_commas = separator not in header and ("," in header or separator == "\t")
    return {} if has_commas else own
