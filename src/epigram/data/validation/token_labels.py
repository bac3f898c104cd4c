"""Token labels: their names and counts, and the text labels that are inferred from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

OUTSIDE = "O"  # the default label, if a corpus has it
PLAIN, MARKED = INFERRED = ("plain", "marked")  # text with only default token labels, and any other


def labels_tokens(columns: Iterable[str]) -> bool:
    """Return whether the corpus has a column of tokens or of token labels."""
    return not {"tokens", "token_labels"}.isdisjoint(columns)


def explode_token_labels(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return one line per token, with `label` and the requested `columns`; none if tokens have no labels."""
    if "token_labels" not in frame.columns:
        return pl.DataFrame(schema={**{name: frame.schema[name] for name in columns}, "label": pl.String})
    return frame.select(*columns, label="token_labels").explode("label").drop_nulls("label")


def token_label_names(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return all labels in `counts`, which has the labels of each split: the default first, the rest by name.

    The default is `O`, or the most frequent label of train if no token has `O`.
    """
    everything = _sum_counts(counts.values())
    if not everything:
        return []
    frequent = counts.get("train") or everything
    default = OUTSIDE if OUTSIDE in everything else max(sorted(frequent), key=frequent.__getitem__)
    return [default, *(name for name in sorted(everything) if name != default)]


def token_label_counts(batches: Iterable[pl.DataFrame]) -> dict[str, int]:
    """Return the number of tokens of each label that occurs."""
    return _sum_counts(dict(explode_token_labels(batch).group_by("label").len().iter_rows()) for batch in batches)


def split_token_labels(batches: Iterable[pl.DataFrame]) -> dict[str, dict[str, int]]:
    """Return the number of tokens of each label that occurs, per split."""
    counts: dict[str, dict[str, int]] = {}
    for batch in batches:
        for (split,), part in batch.group_by("split"):
            counts[str(split)] = _sum_counts([counts.get(str(split), {}), token_label_counts([part])])
    return counts


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def inferred_label(names: Sequence[str]) -> pl.Expr:
    """Return the inferred `label` of a text: PLAIN, MARKED, or null if its tokens have no labels.

    `names[0]` is the default token label.
    """
    labels = pl.col("token_labels")
    plain = labels.list.eval(pl.element().is_in(names[:1]).fill_null(False)).list.all()
    inferred = pl.when(labels.list.len() > 0).then(pl.when(plain).then(pl.lit(PLAIN)).otherwise(pl.lit(MARKED)))
    return inferred.alias("label")
