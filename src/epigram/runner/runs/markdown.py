"""Markdown artifacts of a run for Prefect's dashboard.

The dashboard's pages are narrow, so tables have few columns. Names, labels and notes come from the data, so they are
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.label_limits import MAX_CLASSES, list_names
from epigram.process.display import escape_markdown

if TYPE_CHECKING:
    from epigram.evaluation.records.summary import Summary
    from epigram.report.table import Table


def comparison(summary: Summary, pictures: Sequence[str]) -> str:
    """Return the comparison as a page: verdict, one table row per system, notes and charts."""
    from epigram.report.columns import comparison as table_of
    from epigram.report.table import markdown_table

    table = markdown_table(table_of(summary, "dashboard"))
    return _page(summary.dataset, escape_markdown(summary.verdict), table, _list(summary.notes), *pictures)


def corpus(about: dict[str, Any]) -> str:
    """Return the data set as a page: its labels, the rows of its splits, and the notes of its validation."""
    from epigram.report.table import Cell, Heading, Line, Table, markdown_table

    labels = escape_markdown(list_names(about["labels"], MAX_CLASSES))
    lines = [Line([Cell(split), Cell(f"{number:,}")]) for split, number in about["rows"].items()]
    table = Table([Heading(text="split", kind="text"), Heading(text="rows", kind="number")], lines)
    description = f"{len(about['labels'])} labels: {labels}"
    return _page(about["name"], description, markdown_table(table), _list(about["notes"]))


def sweep(table: Table, verdicts: Iterable[str]) -> str:
    """Return the sweep as a page: its runs, and the best run on the development set for each data set."""
    from epigram.report.table import markdown_table

    return _page("sweep", markdown_table(table), _list(verdicts))


def report(name: str, verdict: str, folder: Path) -> str:
    """Return a page with the report's path as text: browsers do not follow links from HTTP pages to local files."""
    page, model = f"    {folder / 'report.html'}", f"    {folder / 'model'}"
    return _page(
        name,
        escape_markdown(verdict),
        "Full report, a single page that opens offline:",
        page,
        "Selected model:",
        model,
    )


def image(title: str, svg: str) -> str:
    """Embed an SVG in the text, so that no other server has to deliver it; on white, since the page may be dark."""
    from base64 import b64encode

    white = svg.replace("<svg ", '<svg style="background:white" ', 1)
    name = escape_markdown(title)
    return f"### {name}\n\n![{name}](data:image/svg+xml;base64,{b64encode(white.encode()).decode()})"


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {escape_markdown(title)}", *filter(None, parts)]) + "\n"


def _list(notes: Iterable[str]) -> str:
    return "\n".join(f"* {escape_markdown(note)}" for note in notes)
