"""Tables of a report as lists of cells."""

from __future__ import annotations

import re


def cells(html: str) -> list[list[str]]:
    """Return the texts of the cells of all table rows."""
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in found]


def line_of(table: list[list[str]], name: str) -> list[str]:
    (found,) = [row for row in table if row[0] == name]
    return found


def markdown_cells(text: str) -> dict[str, str]:
    """Return the Transformer's row of a Markdown table: heading → cell."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if "|" in line]
    return dict(zip(rows[0], line_of(rows, "transformer"), strict=True))
