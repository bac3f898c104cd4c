"""The same text in two splits: how often, where, and which rows of train would have to go."""

from __future__ import annotations

import polars as pl

from pithy.corpus import faults
from pithy.corpus.keys import LOOSE, exact_text, label_key

PAIRS = (("test", "train"), ("dev", "train"), ("test", "dev"))


def leaks(parts: dict[str, pl.DataFrame]) -> list[dict[str, object]]:
    """For each pair of splits (with a column `#loose`), the rows of the first whose text also stands in the second.

    `exact`: the same text but for white space around it; `same_label`: and the same label too; `normalised`: the same
    but for case, width, punctuation and white space.
    """
    pairs = [pair for pair in PAIRS if all(parts[name].height for name in pair)]
    keyed = {name: _keys(parts[name]) for name in sorted({name for pair in pairs for name in pair})}
    return [
        {"rows_of": one, "also_in": other, "rows": parts[one].height}
        | {key: int(keyed[one][key].is_in(keyed[other][key].unique().implode()).sum()) for key in keyed[one].columns}
        for one, other in pairs
    ]


def _keys(part: pl.DataFrame) -> pl.DataFrame:
    return part.select(exact=exact_text(), same_label=pl.struct(exact_text(), label_key(part)), normalised=LOOSE)


def in_train(part: pl.DataFrame, train: pl.DataFrame) -> pl.Series:
    """One Boolean a row of `part`: its text, white space around it aside, is also in `train`."""
    seen = train.select(exact_text().unique()).to_series()
    return part.select(in_train=exact_text().is_in(seen.implode())).to_series()


def leak_faults(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of train whose text also stands in dev or test."""
    held_out = frame.filter(pl.col("split") != "train").select(exact_text().unique()).to_series()
    leaking = frame.filter((pl.col("split") == "train") & exact_text().is_in(held_out.implode()))
    return faults.located(leaking, "text", faults.LEAK)
