"""The labels of tokens: their names, and the labels of texts that are inferred from them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

OUTSIDE = "O"  # the default label wherever a corpus has it
PLAIN, MARKED = INFERRED = ("plain", "marked")  # a text whose tokens all have the default label, and any other


def labels_tokens(frame: pl.DataFrame) -> bool:
    """Whether the tokens of the corpus have labels."""
    return not {"tokens", "token_labels"}.isdisjoint(frame.columns)


def each_token_label(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """One line a token: `label` and the other `columns` asked for; none where tokens have no labels."""
    if "token_labels" not in frame.columns:
        return pl.DataFrame(schema={**{name: frame.schema[name] for name in columns}, "label": pl.String})
    return frame.select(*columns, label="token_labels").explode("label").drop_nulls("label")


def token_label_names(frame: pl.DataFrame) -> list[str]:
    """The token labels of all rows, the default one first, the others by name.

    The default is `O`, or where no token has it the label that is most frequent in train.
    """
    counts = token_label_counts(frame)
    if not counts:
        return []
    frequent = token_label_counts(frame.filter(pl.col("split") == "train")) or counts
    default = OUTSIDE if OUTSIDE in counts else max(sorted(frequent), key=frequent.__getitem__)
    return [default, *(name for name in sorted(counts) if name != default)]


def token_label_counts(frame: pl.DataFrame) -> dict[str, int]:
    """Tokens of each label that occurs."""
    return dict(each_token_label(frame).group_by("label").len().iter_rows())


def profile_token_labels(parts: Mapping[str, pl.DataFrame], names: list[str]) -> dict[str, dict[str, int]]:
    """Tokens of each label in each split, in the order of `names`; empty where there are none."""
    return {split: dict.fromkeys(names, 0) | token_label_counts(part) for split, part in parts.items() if names}


def with_inferred_label(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with the column `label`: PLAIN, MARKED, or null for a text whose tokens have no labels."""
    labels, default = pl.col("token_labels"), token_label_names(frame)[:1]
    plain = labels.list.eval(pl.element().is_in(default).fill_null(False)).list.all()
    inferred = pl.when(labels.list.len() > 0).then(pl.when(plain).then(pl.lit(PLAIN)).otherwise(pl.lit(MARKED)))
    return frame.with_columns(label=inferred)
