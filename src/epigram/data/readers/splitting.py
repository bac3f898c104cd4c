"""Assignment of rows to splits."""

from __future__ import annotations

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.data.sources.source import Source

SPLIT_NAMES = {  # common names of splits, for sources that declare none
    "train": ("train", "training"),
    "dev": ("dev", "development", "val", "valid", "validation"),
    "test": ("test", "testing"),
}
USUAL = {name: split for split, names in SPLIT_NAMES.items() for name in names}


def split_rows(frame: pl.LazyFrame, source: Source) -> pl.LazyFrame:
    """Set the split of each row by the reader's split column, or by its file if `splits` names files.

    Without `splits`, the values of the column must be common names in upper or lower case, and a row without a value
    is in no split. Raises DataError for any other value.
    """
    said = [pl.col("split").str.strip_chars()] if "split" in frame.collect_schema() else []
    if source.splits:
        named: dict[str, str] = {value: str(split) for split, values in source.splits.items() for value in values}
        value = pl.coalesce(*said, "file")
        key = value
    elif said and _says_splits(frame, said[0].str.to_lowercase(), source):
        named, value, key = USUAL, said[0], said[0].str.to_lowercase()
    else:
        return frame.with_columns(split=pl.lit(None, dtype=pl.String))
    _refuse_unnamed(frame, value, ~key.is_in(list(named)), source, named)
    return frame.with_columns(split=key.replace_strict(named, return_dtype=pl.String))


def _says_splits(frame: pl.LazyFrame, key: pl.Expr, source: Source) -> bool:
    """Return whether the column has splits: the source declares it, or (folders of a tar) it has a common name."""
    if any(options.get("split") is not None for options in (source.read, *(file.read for file in source.files))):
        return True
    return frame.filter(key.is_in(list(USUAL))).head(1).collect().height > 0


def _refuse_unnamed(
    frame: pl.LazyFrame, value: pl.Expr, unnamed: pl.Expr, source: Source, named: dict[str, str]
) -> None:
    first = frame.filter(unnamed).select("file", "line", value=value).head(1).collect()
    if first.height:
        file, line, name = first.row(0)
        raise DataError(
            f"{file} row {line} is in the split {shown(repr(name))}, which data/sources/{source.name}.yaml does not "
            f"name under `splits`; known are {', '.join(sorted(named))}"
        )
