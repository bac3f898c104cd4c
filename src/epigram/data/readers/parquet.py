"""Reader for parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl
import polars.selectors as cs

from epigram.core.errors import DataError, InputMissingError
from epigram.core.limits import LIMITS
from epigram.data.decoding import translate_polars_errors
from epigram.data.readers import register
from epigram.data.tables import Options, TableReader

BATCH = 50_000  # rows
STRING_OVERHEAD = 16  # bytes that polars needs for a string in addition to its characters


@register("parquet")
@dataclass(frozen=True, kw_only=True)
class Parquet(TableReader):
    """Reader for a parquet file."""

    suffixes: ClassVar[dict[str, Options]] = {".parquet": {}}

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield an empty table of all columns, then the columns `only` in batches.

        Raises DataError for a corrupt file or a decompression bomb, InputMissingError for a missing file.
        """
        if not path.is_file():
            raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)")
        with translate_polars_errors(path):
            scan, rows = pl.scan_parquet(path, glob=False), 0
            schema = scan.collect_schema()
            yield pl.Series(dtype=pl.Int64), pl.DataFrame(schema=schema)  # shows a missing column
            names = [name for name in schema if only is None or name in only]
            count = scan.select(pl.len()).collect().item()  # number of rows, in the footer
            remaining = LIMITS.allowance(path.stat().st_size) - count * len(names) * STRING_OVERHEAD
            _check_remaining(remaining, path)
            for table in scan.select(cs.by_name(names)).collect_batches(chunk_size=BATCH, maintain_order=True):
                remaining -= sum(sum(sizes) for sizes in table.select(cs.string().str.len_bytes().sum()).iter_rows())
                _check_remaining(remaining, path)
                yield pl.int_range(rows + 1, rows + table.height + 1, eager=True), table
                rows += table.height


def _check_remaining(remaining: int, path: Path) -> None:
    if remaining < 0:
        raise DataError(f"{path} unpacks to far more bytes than its size allows; possibly a decompression bomb")
