"""validate and encode on a million titles, and the growth of their memory up to four million."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.corpora import TINY, lay_out, prepare, repeated, stage, titles
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan

ROWS = 1_000_000
TIMES = 4  # factor of the larger run: the memory of a streaming stage hardly grows
SETTINGS = {"titles": ROWS, "more_titles": TIMES * ROWS}


def write(scratch: Path, folder: Path, count: int) -> None:
    """Lay out different titles without splits; the stages create dev and test."""
    lay_out(folder, repeated(titles(scratch).drop("split"), count))


def laid_out(plan: Plan, count: int) -> Path:
    """Return a folder in which validate, and then encode, can run on `count` titles."""
    folder = plan.scratch / f"titles-{count}"
    plan.apart(write, plan.scratch, folder, count)
    stage(folder, "download")
    return folder


def both(folder: Path) -> dict[str, float]:
    """Return the seconds of both stages together and the larger of their peak memories."""
    shutil.rmtree(folder / "data/encoded", ignore_errors=True)
    validate = stage(folder, "validate")
    if not (folder / "data/augmented").exists():
        prepare(folder, ("pos_table", "augment"))
    encode = stage(folder, "encode")
    return {"s": validate["s"] + encode["s"], "GB": max(validate["GB"], encode["GB"])}


def rows(plan: Plan) -> list[Row]:
    """Return time and peak memory at a million titles, and the peak at four million relative to it."""
    count = TINY if plan.tiny else ROWS
    folder = laid_out(plan, count)
    larger = folder if plan.tiny else laid_out(plan, TIMES * count)
    [ours] = plan.alternate(lambda: both(folder))
    peak = ours["GB"] if plan.tiny else Measured((both(larger)["GB"],))
    return [
        Row(f"validate + encode, {count:,} titles", "s", ours["s"], reach=Reach("≤", 60)),
        Row("the same, peak memory", "GB", ours["GB"], reach=Reach("≤", 3)),
        Row(
            f"peak memory, {TIMES * count:,} titles",
            "GB",
            peak,
            {f"{count:,} titles": ours["GB"]},
            Reach("≤", 1.3, of="ratio"),
        ),
    ]
