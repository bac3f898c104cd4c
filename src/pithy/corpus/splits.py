"""Splits that the source does not have: stratified, by seed, and with equal texts on one side.

Rows are shuffled by NumPy's default generator, so a cut depends on the rows, the shares and the seed only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from pithy.corpus.keys import LOOSE, each_label
from pithy.errors import DataError, ParameterError

ENOUGH = 3  # different texts that a class needs to be in train, dev and test


def cut(frame: pl.DataFrame, *, dev: float, test: float, seed: int) -> tuple[pl.DataFrame, list[str]]:
    """Cut from train whichever of dev and test has no rows; give the frame with its new `split`, and what was done.

    `frame` has the columns row, label or labels, split and #loose; `dev` and `test` are shares of the rows of train.
    Rows with the same #loose stay together; a class with fewer than three of them stays in train, and none leaves it
    wholly.

    Raises ParameterError where the shares leave nothing to train, DataError where there is too little to cut.
    """
    wanted = {
        split: share
        for split, share in (("test", test), ("dev", dev))
        if frame.filter(pl.col("split") == split).is_empty()
    }
    if not wanted:
        return frame, []
    if sum(wanted.values()) >= 1:
        raise ParameterError(f"params.yaml: validate.dev + validate.test was {dev + test:g}: their sum must be below 1")
    train = frame.filter(pl.col("split") == "train")
    moved = train.select("row", LOOSE).join(_assign(_groups(train, seed), wanted), on=LOOSE).select("row", "cut")
    sizes = dict(moved.group_by("cut").len().iter_rows())
    for split in wanted:
        if split not in sizes:
            raise DataError(
                f"no {split} split can be cut: no class has {ENOUGH} different texts; add rows or a {split} split"
            )
    cut_frame = frame.join(moved, on="row", how="left", maintain_order="left")
    notes = [_note(split, sizes[split], train.height, seed) for split in wanted]
    return cut_frame.with_columns(split=pl.coalesce("cut", "split")).drop("cut"), notes


def _note(split: str, rows: int, of: int, seed: int) -> str:
    return (
        f"The source has no {split} split: {rows:,} of {of:,} training rows were cut off for it, stratified by label "
        f"(seed {seed}), equal texts kept together."
    )


def cap(train: pl.DataFrame, rows: int, seed: int) -> pl.DataFrame:
    """A stratified sample of `rows` rows of train, every label kept, in the order of `row`.

    Raises ParameterError where there are more labels than `rows`.
    """
    shuffled = train.with_columns(stratum=_stratum(train))[_permutation(train.height, seed)].with_row_index("turn")
    firsts = each_label(shuffled, "turn").group_by("label").agg(pl.col("turn").min())["turn"]
    if rows < len(firsts):
        raise ParameterError(
            f"params.yaml: validate.max_train_rows was {rows}: the {len(firsts)} labels need a row each"
        )
    # evenly spaced places in [0, 1) for the rows of each stratum: the first n places hold every stratum in proportion
    place = (pl.int_range(pl.len()).over("stratum") + 0.5) / pl.len().over("stratum")
    ranked = shuffled.sort(~pl.col("turn").is_in(firsts.implode()), place, "turn")
    return ranked.head(rows).sort("row").drop("turn", "stratum")


def _permutation(length: int, seed: int) -> pl.Series:
    return pl.Series(np.random.default_rng(seed).permutation(length))


def _stratum(frame: pl.DataFrame) -> pl.Series:
    """One string a row: its label, or the rarest of its labels."""
    if "labels" not in frame.columns:
        return frame["label"]
    lines = each_label(frame.with_row_index(), "index").with_columns(rows=pl.len().over("label"))
    rarest = lines.sort("index", "rows", "label").unique("index", keep="first", maintain_order=True)
    indexed = frame.select("row").with_row_index()
    return indexed.join(rarest, on="index", how="left", maintain_order="left")["label"].fill_null("")


def _groups(train: pl.DataFrame, seed: int) -> pl.DataFrame:
    """One line for the rows of one text, shuffled: `#loose`, `stratum`, `size`, `pinned`.

    The first group of each label is pinned to train, so that no cut takes a label from it.
    """
    texts = train.select(LOOSE, stratum=_stratum(train)).group_by(LOOSE, maintain_order=True)
    groups = texts.agg(pl.col("stratum").first(), pl.len().alias("size"))
    shuffled = groups[_permutation(groups.height, seed)].with_row_index("turn")
    lines = each_label(train, LOOSE).join(shuffled.select(LOOSE, "turn"), on=LOOSE)
    pinned = lines.group_by("label").agg(pl.col("turn").min())["turn"]
    return shuffled.with_columns(pinned=pl.col("turn").is_in(pinned.implode()))


def _assign(groups: pl.DataFrame, shares: Mapping[str, float]) -> pl.DataFrame:
    """The texts that leave train: `#loose`, `cut`.

    A split takes groups in turn until the middle of the next one passes its quota of rows; a group larger than the
    quota stays.
    """
    groups = groups.with_columns(rows=pl.col("size").sum().over("stratum"), texts=pl.len().over("stratum"))
    free, taken = groups.filter(~pl.col("pinned") & (pl.col("texts") >= ENOUGH)), []
    for split, share in shares.items():
        quota = (pl.col("rows") * share).round().clip(lower_bound=1)
        fitting = free.filter(pl.col("size") <= quota)
        middle = pl.col("size").cum_sum().over("stratum") - pl.col("size") / 2
        chosen = fitting.filter(middle <= quota)
        taken.append(chosen.select(LOOSE, cut=pl.lit(split)))
        free = free.join(chosen, on=LOOSE, how="anti", maintain_order="left")
    return pl.concat(taken)
