"""Reader for plain text, one text per line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.data.readers.decoding import read_lines
from epigram.data.sources.source import SourceSection


@dataclass(frozen=True, kw_only=True)
class PlainLines(SourceSection):
    """Options for a file of texts; the option `file_label` sets their label."""

    encoding: str = "utf-8"


def read(path: Path, options: PlainLines) -> pl.DataFrame:
    """Return line and text. Raises DataError for a wrong encoding, an empty file or NUL bytes."""
    return read_lines(path, options.encoding)
