"""The comparison as a table for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from epigram.evaluation.formats import (
    NO_TOKENS,
    SCORE_NAMES,
    abbreviate,
    change,
    level,
    milliseconds,
    percent,
    score_with_interval,
)
from epigram.evaluation.summary import Row, Summary

MARK = {"chosen": "▸", "tie": "=", "worse": " "}


def comparison_table(summary: Summary) -> Table:
    """Return a table with one row per system; the chosen one is highlighted, systems tied with it are marked `=`."""
    score = SCORE_NAMES[summary.score]
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", caption_justify="left"
    )
    table.title = Text(f"{summary.dataset}: {score} in percent")
    table.caption = Text(f"▸ chosen by development {score}   = tied with it (p ≥ {summary.alpha:g})")
    table.add_column("system", overflow="fold", min_width=8)
    for name in ("dev", f"test, {level(summary.confidence)} interval", *summary.extra_scores, "parameters", "ms/text"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in summary.rows:
        style = "bold green" if row.outcome == "chosen" else ""
        table.add_row(*(Text(cell) for cell in _cells(row, summary)), style=style)
    return table


def _cells(row: Row, summary: Summary) -> list[str]:
    return [
        f"{MARK[row.outcome]} {row.system}",
        percent(row.dev_score),
        NO_TOKENS if summary.labels_no_words(row) else score_with_interval(row.test_score, row.test_low, row.test_high),
        *(percent(getattr(row, field)) for field in summary.extra_scores.values()),
        change(abbreviate(row.parameters), abbreviate(row.parameters_pruned)),
        milliseconds(row.ms_per_text),
    ]
