"""The labels of tokens: their names, and the labels of texts that are inferred from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

OUTSIDE = "O"  # the default label wherever a corpus has it
PLAIN, MARKED = INFERRED = ("plain", "marked")  # a text whose tokens all have the default label, and any other


def labels_tokens(columns: Iterable[str]) -> bool:
    """Whether the tokens of the corpus have labels."""
    return not {"tokens", "token_labels"}.isdisjoint(columns)


def each_token_label(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """One line a token: `label` and the other `columns` asked for; none where tokens have no labels."""
    if "token_labels" not in frame.columns:
        return pl.DataFrame(schema={**{name: frame.schema[name] for name in columns}, "label": pl.String})
    return frame.select(*columns, label="token_labels").explode("label").drop_nulls("label")


def token_label_names(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """All labels of `counts`, those of each split: the default one first, the others by name.

    The default is `O`, or where no token has it the label that is most frequent in train.
    """
    everything = _sums(counts.values())
    if not everything:
        return []
    frequent = counts.get("train") or everything
    default = OUTSIDE if OUTSIDE in everything else max(sorted(frequent), key=frequent.__getitem__)
    return [default, *(name for name in sorted(everything) if name != default)]


def token_label_counts(batches: Iterable[pl.DataFrame]) -> dict[str, int]:
    """Tokens of each label that occurs."""
    return _sums(dict(each_token_label(batch).group_by("label").len().iter_rows()) for batch in batches)


def split_token_labels(batches: Iterable[pl.DataFrame]) -> dict[str, dict[str, int]]:
    """Tokens of each label that occurs in each split."""
    counts: dict[str, dict[str, int]] = {}
    for batch in batches:
        for (split,), part in batch.group_by("split"):
            counts[str(split)] = _sums([counts.get(str(split), {}), token_label_counts([part])])
    return counts


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def inferred_label(names: Sequence[str]) -> pl.Expr:
    """The column `label` of a text: PLAIN, MARKED, or null where its tokens have no labels; names[0] is the default."""
    labels = pl.col("token_labels")
    plain = labels.list.eval(pl.element().is_in(names[:1]).fill_null(False)).list.all()
    inferred = pl.when(labels.list.len() > 0).then(pl.when(plain).then(pl.lit(PLAIN)).otherwise(pl.lit(MARKED)))
    return inferred.alias("label")
