"""Tables for the terminal."""

from __future__ import annotations

from rich import box
from rich import table as rich
from rich.text import Text

from epigram.evaluation.metrics.primary import in_percent, title_of
from epigram.evaluation.records.summary import Summary
from epigram.process.display import printable
from epigram.report.columns import OUT_OF_FOLD, comparison
from epigram.report.table import Table


def comparison_table(summary: Summary) -> rich.Table:
    """Return a table with one row per system; the chosen one is highlighted, `=` marks ties with the best."""
    unit = " in percent" if in_percent(summary.score) else ""
    shown = terminal_table(comparison(summary, "terminal"))
    shown.title = Text(f"{summary.dataset}: {title_of(summary.score)}{unit}")
    scored = f"\ntest: {OUT_OF_FOLD}" if summary.out_of_fold else ""
    shown.caption = Text(f"▸ chosen   = tied with the best on dev (p ≥ {summary.alpha:g}){scored}")
    return shown


def terminal_table(table: Table) -> rich.Table:
    """Return the table for rich; texts are folded if the terminal is narrow, numbers are not."""
    shown = rich.Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", caption_justify="left"
    )
    for heading in table.headings:
        text = Text(printable(heading.text))
        if heading.kind == "text":
            shown.add_column(text, overflow="fold", min_width=8)
        else:
            shown.add_column(text, justify="right" if heading.kind == "number" else "left", no_wrap=True)
    for line in table.lines:
        style = "bold green" if line.highlighted else ""
        shown.add_row(*(Text(printable(cell.text)) for cell in line.cells), style=style)
    return shown
