"""Reader for plain text, one text per line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.data.decoding import read_lines
from epigram.data.readers import Reader, register


@register("lines")
@dataclass(frozen=True, kw_only=True)
class PlainLines(Reader):
    """Reader for a file of texts; the option `file_label` sets their label."""

    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield line and text. Raises DataError for a wrong encoding, an empty file or NUL bytes."""
        yield read_lines(path, self.encoding)
