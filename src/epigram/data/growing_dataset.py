"""Growing data set: the validated rows of a base data set, and every row that has arrived since.

It consists of one parquet file in data/local and a description in data/sources. The `split` of a row never changes
after the row arrives. Base rows keep their splits. New rows go to train, except a share of each label's rows, which
goes to dev, so that dev follows the stream: the newest rows if they have a `time`, else any. If rows have a `group`,
all rows of a group are in the split of its first one. `batch` is 0 for the base and numbers the arrivals from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from epigram.core.errors import DataError
from epigram.data.readers import labels_tokens
from epigram.data.sources.source import SPLIT_KEYS
from epigram.data.times import parse_times
from epigram.data.validation import violations
from epigram.data.validation.cross_row_rules import apply_rules
from epigram.data.validation.row_index import Rows
from epigram.data.validation.row_rules import scan_rows
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.split_keys import read_keys
from epigram.text.dataset.text_matching import label_column, loose_text
from epigram.text.dataset.validated_corpus import SPLITS

if TYPE_CHECKING:
    from epigram.data.sources.source import Source
    from epigram.data.validation.validate import Validated

TOKEN_COLUMNS = ("tokens", "token_labels")


def base_rows(validated: Validated, keep: list[str]) -> pl.DataFrame:
    """Return the initial state of the growing data set: the validated rows of the base."""
    parts = [part.collect().with_columns(split=pl.lit(name)) for name, part in validated.parts.items()]
    frame = pl.concat(parts, how="diagonal_relaxed")
    roles = [
        name for name in (label_column(frame.columns), *TOKEN_COLUMNS, *SPLIT_KEYS, *keep) if name in frame.columns
    ]
    return frame.select("text", cs.by_name(*roles), "split", batch=pl.lit(0, pl.Int32))


def count_splits(frame: pl.DataFrame) -> str:
    """Return the number of rows in each split of the growing data set, as text."""
    train, dev, test = (f"{int((frame['split'] == name).sum()):,}" for name in SPLITS)
    return f"{train} for training, {dev} held out as development texts (no cross-validation), {test} for test"


def describe(source: Source, labels: list[str], name: str) -> dict[str, Any]:
    """Return the content of data/sources/NAME.yaml for the data set that grows from `source`.

    New rows may only have the listed `labels`; any other label is an error until it is added to the list.
    """
    file = f"{name}.parquet"
    read = {"reader": "parquet", "text": "text", "label": "labels" if source.task == "multi" else "label"}
    columns = {"text_columns": source.columns_of_text} if source.columns_of_text != ["text"] else {}
    read |= {"join": source.join} if "join" in source.read else {}
    token_columns = {column: column for column in TOKEN_COLUMNS} if labels_tokens(source) else {}
    return {
        "name": name,
        "about": f"{source.name} with rows added later",
        "language": source.language,
        "task": source.task,
        "licence": source.licence,
        "files": [{"path": file, "local": f"data/local/{file}"}],
        "read": read | token_columns | {"split": "split"} | {key: key for key in SPLIT_KEYS if key in source.read},
        "splits": {split: [split] for split in SPLITS},
        "labels": labels,
        **({"label_names": source.label_names} if source.label_names else {}),
        **({"hierarchy": source.hierarchy} if source.hierarchy else {}),
        "keep": source.keep,
        **columns,
    }


def append_rows(current: pl.DataFrame, new: pl.DataFrame, share: float, batch: int | None = None) -> pl.DataFrame:
    """Return `current` and, as its next batch or `batch`, the rows of `new` whose text is not in it yet.

    Texts are compared without case, width, punctuation and whitespace. Rows have the split of their group, if it is in
    `current`, or else their `split`, if they have one. Of all rows of a label that were added to the base so far, the
    fraction `share` is in dev, whatever the size of the batches.
    """
    added = new.filter(unknown_rows(current, new))
    number = current["batch"].max() if batch is None else batch - 1
    stored = added["split"] if "split" in added.columns else pl.repeat(None, added.height, dtype=pl.String, eager=True)
    assign = _assign_group_splits if "group" in added.columns else _assign_splits
    added = added.select(
        "text",
        label_column(new.columns),
        cs.by_name(*SPLIT_KEYS, require_all=False),
        split=assign(current, added, stored, share),
        batch=pl.lit(number).cast(pl.Int32) + 1,
    )
    return pl.concat([current, added], how="diagonal_relaxed")


def unknown_rows(current: pl.DataFrame, new: pl.DataFrame) -> pl.Series:
    """Return for each row of `new` whether its text is neither in `current` nor in an earlier row of `new`."""
    known = current.select(loose_text()).to_series()
    return new.select(~loose_text().is_in(known.implode()) & loose_text().is_first_distinct()).to_series()


def with_splits(new: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Return `new` with the split that each text has in a batch of `after`; null if only the base has the text."""
    arrived = after.filter(pl.col("batch") > 0).select("split", key=loose_text()).unique("key", keep="first")
    keyed = new.with_columns(key=loose_text())
    return keyed.join(arrived, on="key", how="left", maintain_order="left").drop("key")


def check_rows(frame: pl.DataFrame, name: str, source: Source, settings: ValidateSettings) -> None:
    """Raise DataError if the stage `validate` would reject the growing data set `name` with the rows of `frame`.

    The rules of single rows have been checked before; here, each class must have enough training rows.
    """
    located = frame.with_columns(file=pl.lit(f"{name}.parquet"), line=pl.int_range(1, pl.len() + 1))
    scan = scan_rows(Rows(located.lazy()), source.task, source.labels)
    try:
        results = apply_rules(scan, source.labels, settings.min_per_class, violations.actions_of(settings))
        read_keys(scan.rows, source, results.kept, scan.index.repeated)
    except DataError as error:
        raise DataError(f"{name} with the new rows has {error}") from None


def drop_known(current: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `new` whose text is not in `current`, compared as in `append_rows`."""
    known = current.select(loose_text()).to_series()
    return new.filter(~loose_text().is_in(known.implode()))


def _assign_splits(current: pl.DataFrame, added: pl.DataFrame, stored: pl.Series, share: float) -> pl.Series:
    """Return the `stored` split of each row of `added`; for rows without one, the newest of each label go to dev."""
    label = pl.col(label_column(added.columns))
    stratum = (label.list.first() if "labels" in added.columns else label).alias("stratum")
    before = (
        current.filter(pl.col("batch") > 0).group_by(stratum).agg(rows=pl.len(), dev=(pl.col("split") == "dev").sum())
    )
    age = pl.repeat(0.0, added.height, eager=True)
    if "time" in added.columns:
        age = -parse_times(pl.concat([current["time"], added["time"]])).tail(added.height)
    ranked = added.with_columns(age=age.fill_null(float("inf"))).select(
        stratum,
        rank=pl.struct("age", pl.col("text").hash()).rank("ordinal").over(stratum),
        new=pl.len().over(stratum),
    )
    counted = ranked.join(before, on="stratum", how="left", nulls_equal=True, maintain_order="left").fill_null(0)
    dev_quota = (share * (pl.col("rows") + pl.col("new"))).round() - pl.col("dev").cast(pl.Int64)
    in_dev = pl.col("rank").cast(pl.Float64) <= dev_quota
    return stored.fill_null(counted.select(pl.when(in_dev).then(pl.lit("dev")).otherwise(pl.lit("train"))).to_series())


def _assign_group_splits(current: pl.DataFrame, added: pl.DataFrame, stored: pl.Series, share: float) -> pl.Series:
    """Return the split that each row's group has in `current`, or its `stored` one; new groups go to dev if they fit.

    A row without a group is a group of its own. Groups are considered in the order of their hashes.
    """
    key = pl.coalesce(pl.format("group {}", "group"), pl.format("text {}", "text")).alias("key")
    known = dict(current.select(key, "split").unique("key", keep="first").iter_rows())
    arrived = current.filter(pl.col("batch") > 0)
    quota = round(share * (arrived.height + added.height)) - int((arrived["split"] == "dev").sum())
    new = added.select(key, split=stored).group_by("key").agg(pl.len(), pl.col("split").first())
    for name, rows, split in new.sort(pl.col("key").hash(), "key").iter_rows():
        if name not in known:
            known[name] = split or ("dev" if rows <= quota else "train")
            quota -= rows if known[name] == "dev" else 0
    return pl.Series([known[name] for name in added.select(key).to_series()], dtype=pl.String)
