"""Reader for Excel workbooks (.xlsx), of which one sheet has the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ParameterError, ReadOptionError
from epigram.core.extras import require
from epigram.core.limits import list_names
from epigram.data.csv_rows import MAX_COLUMNS, unique_names
from epigram.data.readers import register
from epigram.data.sources.archives import iter_members
from epigram.data.tables import Options, TableReader

BLOCK = 1 << 20  # bytes
ROW = "#row"
MIDNIGHT = r"^(\d{4}-\d\d-\d\d) 00:00:00$"  # a date without a time


@register("excel")
@dataclass(frozen=True, kw_only=True)
class Excel(TableReader):
    """Reader for a workbook; without `sheet`, only one sheet may have rows."""

    suffixes: ClassVar[dict[str, Options]] = {".xlsx": {}}

    sheet: str | None = None

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield one table of all columns as strings, and the number of each row in the sheet.

        The first row that is not empty has the column names; columns without a name and empty rows are left out. The
        number 1.0 is 1, a date is 2024-01-31, and a formula is its stored value. Raises DataError for a damaged file, a
        decompression bomb, unnamed values and several sheets with rows, InputMissingError for a missing file,
        MissingPackageError without fastexcel, and ParameterError for an unknown sheet.
        """
        cells = _read_cells(path, self.sheet)
        if not cells.height:
            raise DataError(f"{path} has no rows; expected column names in the first row of a sheet")
        names = ["" if name is None else name.strip() for name in cells.drop(ROW).row(0)]
        for place, name in enumerate(names):
            if name == "" and cells[1:, place + 1].is_not_null().any():
                line = cells[1:].filter(cells[1:, place + 1].is_not_null())[ROW][0]
                raise DataError(f"{path} row {line} has a value in a column without a name; name the column in row 1")
        named = [place for place, name in enumerate(names) if name]
        unique = unique_names(names[place] for place in named)
        columns = [cells[1:, place + 1].alias(name) for place, name in zip(named, unique, strict=True)]
        yield cells[1:, 0], pl.DataFrame(columns)


def _read_cells(path: Path, sheet: str | None) -> pl.DataFrame:
    """Return the rows of a sheet that are not empty, with their numbers from 1 in the column ROW."""
    require(f"{path}, an Excel workbook,", "excel", "fastexcel")
    if not path.is_file():
        raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)")
    _check_size(path)
    sheets = _read_sheets(path)
    filled = [name for name, frame in sheets.items() if frame.height]
    if sheet is not None and sheet not in sheets:
        raise ParameterError(f"{path} has no sheet {sheet!r}; its sheets are {list_names(map(repr, sheets))}")
    if sheet is None and len(filled) > 1:
        raise ReadOptionError(f"{path} has the sheets {list_names(map(repr, filled))}", "sheet", repr(filled[0]))
    frame = sheets[sheet or filled[0]] if sheet or filled else pl.DataFrame()
    if frame.width > MAX_COLUMNS:
        raise DataError(f"{path} has more than {MAX_COLUMNS:,} columns; remove some")
    texts = frame.select(pl.all().str.replace(MIDNIGHT, "${1}"))
    is_filled = pl.any_horizontal(pl.all() != "") if frame.width else pl.lit(value=False)
    return texts.select(pl.int_range(1, pl.len() + 1).alias(ROW), pl.all()).filter(texts.select(is_filled).to_series())


def _read_sheets(path: Path) -> dict[str, pl.DataFrame]:
    """Return the cells of each sheet from its first row as strings; numbers are as short as possible."""
    options: Any = {"has_header": False, "raise_if_empty": False, "read_options": {"dtypes": "string", "skip_rows": 0}}
    try:
        found: Any = pl.read_excel(path, sheet_id=0, drop_empty_rows=False, drop_empty_cols=False, **options)
    except Exception as error:  # fastexcel has its own classes
        reason = str(error).partition("\n")[0][:200]
        raise DataError(f"{path} is not a valid Excel workbook, or is damaged ({reason})") from None
    return dict(found)


def _check_size(path: Path) -> None:
    """Raise DataError for a file that is no zip archive, is damaged, or unpacks to far more than its size."""
    if not path.open("rb").read(4).startswith(b"PK\3\4"):
        raise DataError(f"{path} is not an Excel workbook (.xlsx); save it as one, or as csv")
    for member in iter_members(path):
        while member.stream.read(BLOCK):
            pass
