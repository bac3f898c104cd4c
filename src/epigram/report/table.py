"""A table of a report, independent of where it is shown: on a page, in Markdown or on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from epigram.evaluation.records.results import Interval
from epigram.process.display import escape_markdown

# text: left-aligned, from the user's data, escaped in Markdown; mark: left-aligned, written by epigram;
# number: right-aligned; interval: drawn as a bar on a page
Kind = Literal["text", "mark", "number", "interval"]


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Heading of a column; a line feed in `text` is a line break on a page. `about` is the tooltip on a page."""

    text: str
    kind: Kind
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """Content of one cell. A page also shows `small` after the text, and draws `interval` instead of the text."""

    text: str
    small: str = ""
    link: str = ""  # id of an element of the page
    interval: Interval | None = None


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    cells: list[Cell]
    highlighted: bool = False


@dataclass(frozen=True)
class Table:
    """Headings and rows; every row has one cell per heading."""

    headings: list[Heading]
    lines: list[Line]


def markdown_table(table: Table) -> str:
    """Return the table in Markdown, without a line feed at the end."""
    heads = [_in_markdown(heading, heading.text) for heading in table.headings]
    rules = ["---:" if heading.kind == "number" else "---" for heading in table.headings]
    rows = [
        [_in_markdown(heading, cell.text) for heading, cell in zip(table.headings, line.cells, strict=True)]
        for line in table.lines
    ]
    return "\n".join(_line(cells) for cells in (heads, rules, *rows))


def _in_markdown(heading: Heading, text: str) -> str:
    return escape_markdown(text) if heading.kind == "text" else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
