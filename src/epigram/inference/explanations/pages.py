"""Explanations as a web page and as a picture, both complete in one file."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from markupsafe import Markup
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from epigram.core.marked_text import mark_words
from epigram.core.templates import environment
from epigram.inference.explanations.terminal import styled
from epigram.inference.predictors.explanation import Explanation

WIDTH = 100  # characters of a line of the picture
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace; white-space: pre; }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" fill="#fff"/>
<g>{backgrounds}</g>
<g class="{unique_id}-matrix">{matrix}</g>
</svg>
"""


def to_html(explanations: Sequence[Explanation]) -> str:
    """Return a page with the explanations, which needs no other file and has a dark mode."""
    template = environment("epigram.inference.explanations").get_template("explanations.html.j2")
    return template.render(explanations=explanations, marked=marked)


def marked(explanation: Explanation) -> Markup:
    """Return the text of an explanation as HTML, with each of its words coloured by its score."""
    return mark_words(explanation.text, explanation.weights())


def to_svg(explanations: Sequence[Explanation]) -> str:
    """Return a picture with the lines that the terminal shows."""
    console = Console(file=StringIO(), record=True, width=WIDTH, highlight=False, force_terminal=True)
    for explanation in explanations:
        console.print(styled(explanation))
    return console.export_svg(theme=DEFAULT_TERMINAL_THEME, code_format=SVG, unique_id="explanation")
