"""Explanations in the terminal: the text with coloured words, and its most important words with their scores."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.text import Text

from epigram.inference.predictors.explanation import Explanation
from epigram.process.display import one_line, printable

LISTED = 10  # words with their scores
LEAST = 0.0005  # size of a score that is listed: smaller ones are printed as 0.000
STRONG = 0.5  # share of the highest score from which a word is bold
FAINT = 0.05  # share of the highest score below which a word has no colour


def to_terminal(explanations: list[Explanation], *, colours: bool) -> str:
    """Return the explanations as lines, with escape sequences for `colours`."""
    out = StringIO()
    console = Console(file=out, force_terminal=colours, highlight=False)
    for explanation in explanations:
        console.print(styled(explanation), soft_wrap=True)
    return out.getvalue()


def styled(explanation: Explanation) -> Text:
    """Return the label, the text with its words coloured by their scores, and the most important words."""
    text, words, highest = Text(), explanation.words, explanation.highest
    text.append(f"{_clean(explanation.label) or '–'} {explanation.probability:.3f}", "bold")
    text.append(f"  by {explanation.method}; + speaks for the label, - against it\n", "dim")
    place = 0
    for word in words:
        text.append(_clean(explanation.text[place : word.start]))
        text.append(_clean(word.text), style_of(word.score / highest))
        place = word.end
    text.append(_clean(explanation.text[place:]) + "\n")
    listed = [word for word in explanation.ranked[:LISTED] if abs(word.score) >= LEAST]
    for word in listed:
        text.append(f"  {word.score:+8.3f}", style_of(word.score / highest)).append(f"  {_clean(word.text)}\n")
    if (more := len(words) - len(listed)) > 0:
        text.append(f"  and {more:,} more word{'s' if more > 1 else ''}\n", "dim")
    if explanation.base is not None:
        text.append(f"  {explanation.base:+8.3f}  without the words\n", "dim")
    if explanation.faithfulness is not None:
        text.append(f"  {explanation.faithfulness.summary}\n", "dim")
    if explanation.similar:
        text.append("  similar training texts\n", "dim")
    for each in explanation.similar:
        text.append(f"  {each.similarity:8.3f}  ").append(_clean(", ".join(each.labels) or "–"), "bold")
        text.append(f"  {_clean(each.text)}\n")
    return text


def style_of(weight: float) -> str:
    """Return the style of a word with a weight from -1 to 1: green speaks for the label, red against it."""
    if abs(weight) < FAINT:
        return ""
    return ("bold " if abs(weight) >= STRONG else "") + ("green" if weight > 0 else "red")


def _clean(text: str) -> str:
    return printable(one_line(text))
