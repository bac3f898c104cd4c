"""Accuracy grid: our systems and other tools on seven data sets, with the same rows, budget and threads.

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.accuracy --final --limit-minutes 60
    python -m benchmarks.accuracy --page

--page writes docs/accuracy.md, and the table of experience in src/epigram/fitting. Without it, the command
fills the planned cells without a file, in order of their worth, and continues where it stopped; docs/accuracy.md says
what a cell is. Test rows are scored with --final only, and each cell counts how often.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from benchmarks import accuracy_cells as cells
from benchmarks import accuracy_experience
from benchmarks import accuracy_resamples as resamples
from benchmarks.accuracy_catalogue import TOOLS
from benchmarks.accuracy_cells import BUDGETS, Cell, Found
from benchmarks.accuracy_data import SETS, load
from benchmarks.accuracy_environments import python_of
from benchmarks.accuracy_grid import grid_of
from benchmarks.accuracy_measure import THREADS, measure
from benchmarks.accuracy_page import PAGE, rendered
from benchmarks.timing import ROOT, SkippedError

CACHE = ROOT / ".accuracy_cache"
DEV = "dev"  # folder of the cells that are not scored on test
Measure = Callable[[Cell], Found]  # raises SkippedError if the tool cannot run here


def chosen(asked: argparse.Namespace) -> list[Cell]:
    """Return the planned cells of the sets, rows, samples and tools that were asked for."""
    return [
        cell
        for cell in (resamples if asked.resamples else cells).planned()
        if cell.set in asked.sets.split(",")
        and str(cell.rows) in asked.rows.split(",")
        and cell.tool in asked.tools.split(",")
        and (asked.samples is None or cell.sample < asked.samples)
    ]


def fill(
    wanted: Iterable[Cell],
    measured: Measure,
    folder: Path,
    *,
    final: bool,
    again: bool = False,
    seconds: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = print,
) -> None:
    """Fill the cells without a file or, with `again`, also those with one; stop if a budget exceeds what is left.

    A cell counts the scorings of test rows, those of its earlier file included.
    """
    end, skipped = clock() + seconds, dict[str, str]()
    for cell in wanted:
        before = cells.read(cell, folder)
        if (before is not None and not again) or cell.tool in skipped:
            continue
        if clock() + cell.budget > end:
            say(f"stopped before {cell.name}: its budget exceeds the time that is left")
            break
        try:
            found = measured(cell)
        except SkippedError as reason:
            skipped[cell.tool] = str(reason)
            say(f"{cell.tool} skipped: {reason}")
            continue
        scorings = (before or {}).get("test_scorings", 0) + (final and "failed" not in found)
        cells.write(cell, {**found, "test_scorings": scorings}, folder)
        say(f"{cell.name}: {found.get('failed') or found['accuracy']}, {found['seconds']:.0f} s")


def measurer(cache_folder: Path, *, final: bool, resampled: bool = False) -> Measure:
    """Return the function that measures a cell, with the data sets and the environments in `cache_folder`.

    If `resampled`, the sample of a cell is the number of a random split of the data set.
    """
    corpus = cache(lambda name: load(name, cache_folder / "corpora"))
    python = cache(lambda name: python_of(TOOLS[name], cache_folder / "environments"))

    def measured(cell: Cell) -> Found:
        if TOOLS[cell.tool].module is None:
            raise SkippedError("it is of an earlier version")
        rows = corpus(cell.set)
        if resampled:
            rows = resamples.split_again(rows, cell.sample)
        return measure(cell, TOOLS[cell.tool], rows, python(cell.tool), final=final)

    return measured


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description="Fill cells of the accuracy grid, or write docs/accuracy.md from them."
    )
    parser.add_argument(
        "--page", action="store_true", help="write docs/accuracy.md and the table of experience, measure nothing"
    )
    parser.add_argument("--final", action="store_true", help="score test rows, not rows held out of train")
    parser.add_argument("--again", action="store_true", help="measure filled cells again")
    parser.add_argument("--resamples", action="store_true", help="fill the random splits of sets without a split")
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated data sets")
    parser.add_argument("--rows", default=",".join(map(str, BUDGETS)), help="comma-separated numbers of training rows")
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated tools")
    parser.add_argument("--samples", type=int, help="maximum number of samples; default: all")
    parser.add_argument("--limit-minutes", type=float, default=float("inf"), help="start no cell that may end later")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the data sets and of the environments")
    parser.add_argument("--results", type=Path, help="folder of the cells")
    asked = parser.parse_args(arguments)
    asked.results = asked.results or (resamples.FOLDER if asked.resamples else cells.FOLDER)
    return asked


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill cells, or write the page."""
    asked = parsed(arguments)
    if asked.page:
        PAGE.write_text(rendered(asked.results), encoding="utf-8")
        accuracy_experience.write(grid_of(cells.filled(asked.results)))
        return
    if not os.environ.get("EPIGRAM_MIRROR"):
        print("EPIGRAM_MIRROR is not set: the data sets are downloaded from their official addresses", file=sys.stderr)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    folder = asked.results if asked.final else asked.results / DEV
    measured = measurer(asked.cache, final=asked.final, resampled=asked.resamples)
    fill(
        chosen(asked),
        measured,
        folder,
        final=asked.final,
        again=asked.again,
        seconds=60 * asked.limit_minutes,
        say=lambda line: print(line, flush=True),
    )


if __name__ == "__main__":
    main()
