"""SVG drawings of docs/papers: heat maps and curves, without measuring texts, so that every machine writes the same.

A drawing has its own background, and light or dark colours as its reader prefers.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from epigram.report.charts import COLOURS, FONT
from epigram.report.page import DARK

GAP, LINE = 16, 16  # between panels and round the drawing; height of a line of text
CELL, WIDE = 18, 40  # width of a cell, and of one with its number
NUMBERED = 60  # cells up to which a heat map prints its numbers
SIDE_BY_SIDE = 860  # width up to which panels are drawn beside each other
CURVE, LEFT, TOP, BELOW, RIGHT = (420, 220), 46, 32, 46, 110  # size of a curve's plane, and the space round it
LINES = ("accent", "second", "muted")  # colours of the lines of a curve


@dataclass(frozen=True)
class Panel:
    """One matrix of a figure, with the names of its rows and columns."""

    title: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]


@dataclass(frozen=True)
class Point:
    """The scores of some seeds at one place of a curve."""

    x: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return math.fsum(self.values) / len(self.values)


def style() -> str:
    """Return the style sheet: the report's colours, light and dark."""

    def rules(colours: Mapping[str, str], page: str) -> str:
        fills = "".join(f".{name}{{fill:{colour}}}" for name, colour in colours.items())
        strokes = "".join(f".{name}-line{{stroke:{colour};fill:none}}" for name, colour in colours.items())
        return f".page{{fill:{page}}}{fills}{strokes}"

    dark = rules(DARK, "#12161c")
    return f"<style>{rules(COLOURS, '#fff')}@media(prefers-color-scheme:dark){{{dark}}}</style>"


def drawing(width: int, height: int, parts: Sequence[str]) -> str:
    """Return the SVG file of a drawing."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">'
    page = f'<rect class="page" width="{width}" height="{height}"/>'
    return "\n".join([head, style(), page, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, *, colour: str = "ink", anchor: str = "start", more: str = "") -> str:
    """Return a text whose baseline starts, ends or has its middle at (x, y)."""
    return f'<text class="{colour}" x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def length(words: str) -> int:
    """Return the estimated width of a text, where a Chinese character is as wide as two letters."""
    return sum(14 if unicodedata.east_asian_width(each) in "WF" else 7 for each in words)


def heat_maps(panels: Sequence[Panel]) -> str:
    """Draw each matrix as a heat map: the opacity rises from the smallest to the largest value of the panel."""
    drawn = [_heat_map(panel) for panel in panels]
    widest = max(width for width, _, _ in drawn)
    columns = 2 if len(drawn) > 1 and 2 * widest + 3 * GAP <= SIDE_BY_SIDE else 1
    parts, top, total = [], GAP, columns * (widest + GAP) + GAP
    for start in range(0, len(drawn), columns):
        line = drawn[start : start + columns]
        for place, (_, _, shapes) in enumerate(line):
            parts.append(f'<g transform="translate({GAP + place * (widest + GAP)} {top})">\n{shapes}\n</g>')
        top += max(height for _, height, _ in line) + GAP
    return drawing(total, top, parts)


def _heat_map(panel: Panel) -> tuple[int, int, str]:
    """Return the width, the height and the shapes of a heat map."""
    smallest, largest = min(map(min, panel.values)), max(map(max, panel.values))
    numbers = len(panel.rows) * len(panel.columns) <= NUMBERED
    wide = WIDE if numbers else CELL
    level = all(length(name) <= wide for name in panel.columns)
    left = max(map(length, panel.rows)) + 6
    top = LINE + 6 + (LINE if level else max(map(length, panel.columns)) + 4)
    width = max(left + wide * len(panel.columns), length(panel.title) + 90)
    parts = [text(0, 12, f"{panel.title} ({smallest:.2f} to {largest:.2f})", colour="muted")]
    for place, name in enumerate(panel.columns):
        x = left + wide * (place + 0.5)
        turned = "" if level else f' transform="rotate(-90 {x + 4:g} {top - 6})"'
        parts.append(text(x if level else x + 4, top - 6, name, anchor="middle" if level else "start", more=turned))
    parts += [text(left - 6, top + CELL * row + 13, name, anchor="end") for row, name in enumerate(panel.rows)]
    places = [(left + wide * column, top + CELL * row, value) for row, column, value in _cells(panel)]
    parts.append('<g class="accent">')
    for x, y, value in places:
        opacity = 0.03 + 0.72 * (value - smallest) / (largest - smallest or 1.0)
        parts.append(f'<path d="M{x} {y}h{wide - 1}v{CELL - 1}h{1 - wide}z" fill-opacity="{opacity:.2f}"/>')
    parts.append("</g>")
    if numbers:
        size = ' font-size="10"'
        parts += [text(x + wide / 2, y + 13, f"{value:.2f}", anchor="middle", more=size) for x, y, value in places]
    return width, top + CELL * len(panel.rows), "\n".join(parts)


def _cells(panel: Panel) -> Iterator[tuple[int, int, float]]:
    """Yield row, column and value of each cell."""
    for row, values in enumerate(panel.values):
        for column, value in enumerate(values):
            yield row, column, value


def curves(lines: Mapping[str, Sequence[Point]], *, x: str, y: str) -> str:
    """Draw up to three lines of means, with a small circle for each seed if there are several; `x`, `y` name axes."""
    wide, high = CURVE
    places = sorted({point.x for points in lines.values() for point in points})
    values = [value for points in lines.values() for point in points for value in point.values]
    ticks = nice_ticks(min(values), max(values))

    def at_x(place: float) -> float:
        span = places[-1] - places[0]
        return LEFT + (wide * (place - places[0]) / span if span else wide / 2)

    def at_y(value: float) -> float:
        return TOP + high * (ticks[-1] - value) / (ticks[-1] - ticks[0])

    parts = [text(LEFT, TOP - 12, y, colour="muted")]
    for tick in ticks:
        parts.append(f'<path class="line-line" d="M{LEFT} {at_y(tick):.1f}h{wide}"/>')
        parts.append(text(LEFT - 6, at_y(tick) + 4, f"{tick:g}", anchor="end"))
    parts += [text(at_x(place), TOP + high + 18, f"{place:.3g}", anchor="middle") for place in places]
    parts.append(text(LEFT + wide / 2, TOP + high + 38, x, colour="muted", anchor="middle"))
    for number, (colour, (name, points)) in enumerate(zip(LINES, lines.items(), strict=False)):
        route = "L".join(f"{at_x(point.x):.1f} {at_y(point.mean):.1f}" for point in points)
        parts.append(f'<path class="{colour}-line" stroke-width="2" d="M{route}"/>')
        for point in points:
            circles = [(point.mean, 4), *((value, 2) for value in point.values if len(point.values) > 1)]
            x_of = f'class="{colour}" cx="{at_x(point.x):.1f}"'
            parts += [f'<circle {x_of} cy="{at_y(value):.1f}" r="{radius}"/>' for value, radius in circles]
        parts.append(text(LEFT + wide + 14, TOP + 12 + LINE * number, name, colour=colour))
    return drawing(LEFT + wide + RIGHT, TOP + high + BELOW, parts)


def nice_ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers of which the first is at most `low` and the last at least `high`."""
    rough = max(high - low, 0.5) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * number, 6) for number in range(first, max(last, first + 1) + 1)]
