"""The same text in two splits: how often, where, and which rows of train would have to go."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pithy.corpus import faults
from pithy.corpus.keys import LOOSE, exact_text, label_key

PAIRS = (("test", "train"), ("dev", "train"), ("test", "dev"))


def leaks(parts: Mapping[str, pl.DataFrame], rows: Mapping[str, int]) -> list[dict[str, object]]:
    """For each pair of splits, the rows of the first whose text also stands in the second.

    `parts` (with a column `#loose`) may leave out rows whose text no other row has; `rows` counts all of each split.
    `exact`: the same text but for white space around it; `same_label`: and the same label too; `normalised`: the same
    but for case, width, punctuation and white space.
    """
    keyed = {name: _keys(part) for name, part in parts.items()}
    return [
        {"rows_of": one, "also_in": other, "rows": rows[one]}
        | {key: int(keyed[one][key].is_in(keyed[other][key].unique().implode()).sum()) for key in keyed[one].columns}
        for one, other in PAIRS
        if rows[one] and rows[other]
    ]


def _keys(part: pl.DataFrame) -> pl.DataFrame:
    return part.select(exact=exact_text(), same_label=pl.struct(exact_text(), label_key(part)), normalised=LOOSE)


def in_train(part: pl.DataFrame, train: pl.DataFrame) -> pl.Series:
    """One Boolean a row of `part`: its text, white space around it aside, is also in `train`."""
    seen = train.select(exact_text().unique()).to_series()
    return part.select(in_train=exact_text().is_in(seen.implode())).to_series()


def repeats(part: pl.DataFrame) -> int:
    """The rows whose text, white space around it aside, an earlier row has."""
    return part.height - int(part.select(exact_text().n_unique()).item())


def leak_faults(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of train whose text also stands in dev or test."""
    held_out = frame.filter(pl.col("split") != "train").select(exact_text().unique()).to_series()
    leaking = frame.filter((pl.col("split") == "train") & exact_text().is_in(held_out.implode()))
    return faults.located(leaking, "text", faults.LEAK)
