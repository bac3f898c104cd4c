"""Leakage, the same text in two splits: how often and where it occurs, and which training rows to drop."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from epigram.data.validation import violations
from epigram.data.validation.text_matching import LOOSE, exact_text, label_key

PAIRS = (("test", "train"), ("dev", "train"), ("test", "dev"))


def count_leaks(parts: Mapping[str, pl.DataFrame], rows: Mapping[str, int]) -> list[dict[str, object]]:
    """Count, for each pair of splits, the rows of the first split whose text also occurs in the second.

    `parts` (with a column `#loose`) may omit rows whose text no other row has; `rows` is the full size of each split.
    `exact` ignores leading and trailing whitespace. `same_label` also requires the same label. `normalised` ignores
    case, width, punctuation and whitespace.
    """
    keyed = {name: _comparison_keys(part) for name, part in parts.items()}
    return [
        {"rows_of": one, "also_in": other, "rows": rows[one]}
        | {key: int(keyed[one][key].is_in(keyed[other][key].unique().implode()).sum()) for key in keyed[one].columns}
        for one, other in PAIRS
        if rows[one] and rows[other]
    ]


def _comparison_keys(part: pl.DataFrame) -> pl.DataFrame:
    return part.select(exact=exact_text(), same_label=pl.struct(exact_text(), label_key(part)), normalised=LOOSE)


def in_train(part: pl.DataFrame, train: pl.DataFrame) -> pl.Series:
    """Return for each row of `part` whether `train` has its text, ignoring leading and trailing whitespace."""
    seen = train.select(exact_text().unique()).to_series()
    return part.select(in_train=exact_text().is_in(seen.implode())).to_series()


def count_repeats(part: pl.DataFrame) -> int:
    """Count the rows whose text an earlier row has, ignoring leading and trailing whitespace."""
    return part.height - int(part.select(exact_text().n_unique()).item())


def find_leaks(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the training rows whose text also occurs in dev or test."""
    held_out = frame.filter(pl.col("split") != "train").select(exact_text().unique()).to_series()
    leaking = frame.filter((pl.col("split") == "train") & exact_text().is_in(held_out.implode()))
    return violations.row_violations(leaking, "text", violations.LEAK)
