"""validate and encode on a million titles."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.corpora import lay_out, repeated, stage, titles
from benchmarks.timing import Plan, Reach, Row, apart

ROWS = 1_000_000


def prepare(scratch: Path, folder: Path, count: int) -> None:
    """Lay out a million different titles, of which the stages cut dev and test."""
    lay_out(folder, repeated(titles(scratch).drop("split"), count))


def rows(plan: Plan) -> list[Row]:
    """Seconds of both stages together, and the larger peak of their memory."""
    count = plan.size(ROWS)
    folder = plan.scratch / "million"
    apart(prepare, plan.scratch, folder, count)
    for name in ("download", "validate", "pos_table", "augment"):
        stage(folder, name)

    def run() -> dict[str, float]:
        shutil.rmtree(folder / "data/validated")
        shutil.rmtree(folder / "data/encoded", ignore_errors=True)
        validate, encode = stage(folder, "validate"), stage(folder, "encode")
        return {"s": validate["s"] + encode["s"], "GB": max(validate["GB"], encode["GB"])}

    [ours] = plan.alternate(run)
    return [
        Row(f"validate + encode, {count:,} titles", "s", ours["s"], reach=Reach("≤", 120)),
        Row("the same, peak memory", "GB", ours["GB"], reach=Reach("≤", 3)),
    ]
