"""Markdown artifacts of a run for Prefect's dashboard.

The dashboard's pages are narrow, so tables have few columns. Names, labels and notes come from the data, so they are
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.display import escape_markdown
from epigram.core.label_limits import MAX_CLASSES, list_names

if TYPE_CHECKING:
    from epigram.evaluation.summary import Summary


def comparison(summary: Summary, pictures: Sequence[str]) -> str:
    """Return the comparison as a page: verdict, one table row per system, notes and charts."""
    from epigram.report.columns import comparison as table_of
    from epigram.report.table import markdown_table

    table = markdown_table(table_of(summary, "dashboard"))
    return _page(summary.dataset, escape_markdown(summary.verdict), table, _list(summary.notes), *pictures)


def corpus(about: dict[str, Any]) -> str:
    """Return the data set as a page: its labels, the rows of its splits, and the notes of its validation."""
    labels = escape_markdown(list_names(about["labels"], MAX_CLASSES))
    rows = [[escape_markdown(split), f"{number:,}"] for split, number in about["rows"].items()]
    table = _table(["split", "rows"], "lr", rows)
    return _page(about["name"], f"{len(about['labels'])} labels: {labels}", table, _list(about["notes"]))


def sweep(head: Sequence[str], rows: Sequence[Sequence[str]], verdicts: Iterable[str]) -> str:
    """Return the sweep as a page: its runs, and the best run on the development set for each data set."""
    cells = [list(map(escape_markdown, row)) for row in rows]
    return _page("sweep", _table(list(map(escape_markdown, head)), "l" * (len(head) - 1) + "r", cells), _list(verdicts))


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


def _table(head: Sequence[str], sides: str, rows: Iterable[Sequence[str]]) -> str:
    rules = [{"l": "---", "r": "---:"}[side] for side in sides]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rules, *rows])
