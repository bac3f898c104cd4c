"""A text as HTML, with words coloured by how much they speak for or against a label."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from epigram.core.masking import masked

WORD = Markup('<mark class="{}" style="--s:{:.2f}">{}</mark>')


def mark_words(text: str, words: Iterable[tuple[int, int, float]]) -> Markup:
    """Return `text` with each word, from start to end, marked by its weight from -1 to 1, masked and escaped."""
    parts, place, text = [], 0, masked(text)
    for start, end, weight in words:
        parts.append(escape(text[place:start]))
        parts.append(WORD.format("for" if weight > 0 else "against", abs(weight), text[start:end]))
        place = end
    return Markup("").join([*parts, escape(text[place:])])
