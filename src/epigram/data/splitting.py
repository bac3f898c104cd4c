"""Assignment of rows to splits."""

from __future__ import annotations

import numpy as np
import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.data.sources.source import RowSample, Source

SPLIT_NAMES = {  # common names of splits, for sources that declare none
    "train": ("train", "training", "训练", "训练集"),
    "dev": ("dev", "development", "val", "valid", "validation", "验证", "验证集", "开发集"),
    "test": ("test", "testing", "测试", "测试集"),
}
SPLIT_BY_NAME = {name: split for split, names in SPLIT_NAMES.items() for name in names}


def split_rows(frame: pl.LazyFrame, source: Source) -> pl.LazyFrame:
    """Set the split of each row by the reader's split column, or by its file if `splits` names files.

    Without `splits`, the values of the column must be in SPLIT_NAMES, in upper or lower case, and a row without a value
    is in no split. Raises DataError for any other value.
    """
    columns = [pl.col("split").str.strip_chars()] if "split" in frame.collect_schema() else []
    if source.splits:
        known: dict[str, str] = {value: str(split) for split, values in source.splits.items() for value in values}
        value = pl.coalesce(*columns, "file")
        key = value
    elif columns and _has_split_names(frame, columns[0].str.to_lowercase(), source):
        known, value, key = SPLIT_BY_NAME, columns[0], columns[0].str.to_lowercase()
    else:
        return frame.with_columns(split=pl.lit(None, dtype=pl.String))
    _check_split_names(frame, value, ~key.is_in(list(known)), source, known)
    return frame.with_columns(split=key.replace_strict(known, return_dtype=pl.String))


def sample_rows(frame: pl.DataFrame, sample: RowSample) -> pl.DataFrame:
    """Return the rows of `frame`, in order, that are drawn for `sample` or not in train, with their new splits.

    The rows of each label are shuffled: the first `per_class` of them stay, and the new splits are consecutive parts.
    """
    order = np.random.default_rng(sample.seed).permutation(frame.height)
    in_train, row = (pl.col("split") == "train").fill_null(True), pl.col("row")  # `row` is no column of a source
    drawn = frame.with_columns(row=order).with_columns(row.rank("ordinal").over(in_train, "label"))
    if sample.per_class is not None:
        drawn = drawn.filter(~in_train | (row <= sample.per_class))
    split, taken = pl.col("split"), 0.0
    for name, share in sample.resplit.items():
        taken += share
        inside = row <= (pl.len().over("label") * taken).round()
        split = pl.coalesce(split, pl.when(inside).then(pl.lit(name)))
    return drawn.with_columns(split=split).drop("row")


def _has_split_names(frame: pl.LazyFrame, key: pl.Expr, source: Source) -> bool:
    """Return whether the column has splits: the source declares it, or (folders of a tar) it has a common name."""
    if any(options.get("split") is not None for options in (source.read, *(file.read for file in source.files))):
        return True
    return frame.filter(key.is_in(list(SPLIT_BY_NAME))).head(1).collect().height > 0


def _check_split_names(
    frame: pl.LazyFrame, value: pl.Expr, is_unknown: pl.Expr, source: Source, known: dict[str, str]
) -> None:
    first = frame.filter(is_unknown).select("file", "line", value=value).head(1).collect()
    if first.height:
        file, line, name = first.row(0)
        raise DataError(
            f"{file}:{line} has the unknown split {shown(repr(name))}; known splits: {', '.join(sorted(known))} "
            f"(see `splits` in data/sources/{source.name}.yaml)"
        )
