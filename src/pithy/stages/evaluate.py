"""evaluate: score the final models; the only stage that touches the test set.

python -m pithy.stages.evaluate SYSTEM VALIDATED ENCODED PRUNED OUT

Measured speed changes from run to run, so it is kept out of OUT, in data/speed/SYSTEM.json.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pithy.errors import DataError, InputMissingError, arguments, guarded
from pithy.evaluation.measure import measure
from pithy.evaluation.record import write
from pithy.evaluation.system import Split, evaluate_system
from pithy.files import write_json
from pithy.settings import select
from pithy.text.view import View

PARAMS = ("seeds", "evaluate")


def texts_of(path: Path) -> pl.DataFrame:
    """Row numbers and texts of a validated split. Raises InputMissingError or DataError."""
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run dvc repro validate")
    try:
        return pl.read_parquet(path, columns=["row", "text"])
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read ({error}): run dvc repro validate") from None


def split_of(view: View, validated: Path, name: str) -> Split:
    """The truth of one split, with its texts in the order of the view's rows."""
    part = view.split(name)
    assert part.in_train is not None
    frame = texts_of(validated / f"{name}.parquet")
    rows = pl.DataFrame({"row": np.array(part.rows)}).join(frame, on="row", how="left", maintain_order="left")
    return Split(
        labels=np.array(part.labels, dtype=np.int64),
        rows=np.array(part.rows),
        texts=rows["text"].to_list(),
        in_train=np.array(part.in_train),
    )


@guarded
def main() -> None:
    """Read the settings, predict dev and test with every seed, write the scores."""
    name, validated, encoded, pruned, out = arguments("SYSTEM", "VALIDATED", "ENCODED", "PRUNED", "OUT")
    settings = select(PARAMS)
    view = View.load(Path(encoded))
    measured = [measure(Path(pruned) / f"seed-{seed}", view, settings.evaluate.timing_texts) for seed in settings.seeds]
    evaluation = evaluate_system(
        name,
        task="multi" if view.task == "multi" else "single",
        labels=view.labels,
        seeds=settings.seeds,
        dev=split_of(view, Path(validated), "dev"),
        test=split_of(view, Path(validated), "test"),
        dev_probabilities=np.stack([m.dev for m in measured]),
        test_probabilities=np.stack([m.test for m in measured]),
        costs=[m.cost for m in measured],
        settings=settings.evaluate,
    )
    write(Path(out), evaluation)
    write_json(Path("data/speed") / f"{name}.json", measured[0].speed)
    scores = evaluation.metrics
    print(f"{name}: dev {100 * scores.dev.accuracy:.1f}, test {100 * scores.test.accuracy:.1f}")


if __name__ == "__main__":
    main()
