"""Masking of e-mail addresses, phone numbers and ids in everything that epigram shows to people.

Nothing is shown but by one of four functions, and all of them mask: `process.display.printable` (terminal, logs,
outcomes, Markdown and artifacts), the templates of `core.templates` (HTML), `core.marked_text.mark_words` (coloured
texts in HTML), and the tables beside the report. What is masked is a setting of the process, `report.mask` of
params.yaml, or of a call of `fit`. Files that only stages read keep the texts, so that a change of the setting retrains
nothing. A masked text keeps its length, spaces and punctuation, so that the places of its words stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, get_args

Kind = Literal["email", "phone", "id"]

NO_DIGIT_BEFORE = r"(?<!\d)(?<!\d[.,/-])"
NO_DIGIT_AFTER = r"(?![.,]?\d)"
NO_DATE = r"(?!\d{1,2}[./-]\d{1,2}[./-]\d{2,4})"
PATTERNS: dict[Kind, tuple[str, ...]] = {
    "email": (r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+[@＠][A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+",),
    "phone": (
        r"([+＋]\d|00\d|86[ -])([ ().-]{0,2}\d){7,14}",  # international
        r"[1１][3-9３-９]\d[ -]?\d{4}[ -]?\d{4}",  # Chinese mobile
        rf"{NO_DATE}\(?[0０]\d(\)?[ .-]?\d){{7,10}}(转\d{{1,6}})?",  # Chinese and European area codes
        r"([48]00|\(\d{3}\)|\d{3})[ .-]?\d{3}[.-]\d{4}",  # service numbers and North American ones
    ),
    "id": (
        r"(?<![A-Za-z_])\d{10,}[Xx]?(?![A-Za-z_])",  # resident id numbers, accounts, orders
        r"(?!((19|20)\d\d[ -]?)+(?!\d))\d{4}([ -]\d{4}){2,3}([ -]\d{1,4})?|\d{4}[ -]\d{6}[ -]\d{5}",  # cards
        r"\d{3}-\d{2}-\d{4}",  # social security numbers
        r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){2,7}( ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",  # IBAN
    ),
}
CUT = re.compile(r"[\d\s()+.-]*+[A-Za-z0-9@._%+-]*+…")  # end of a shortened text, which may be a part of an address


def _compile(kind: Kind) -> re.Pattern[str]:
    if kind == "email":
        return re.compile(PATTERNS[kind][0])
    return re.compile("|".join(f"{NO_DIGIT_BEFORE}({each}){NO_DIGIT_AFTER}" for each in PATTERNS[kind]))


COMPILED = {kind: _compile(kind) for kind in PATTERNS}
_kinds: ContextVar[tuple[Kind, ...]] = ContextVar("_kinds", default=())


def mask(kinds: Any) -> None:
    """Mask these kinds from now on; values that are no kinds are left out, as they are reported where they are read."""
    known = kinds if isinstance(kinds, (list, tuple)) else ()
    _kinds.set(tuple(kind for kind in get_args(Kind) if kind in known))


@contextmanager
def masking(kinds: Iterable[Kind]) -> Iterator[None]:
    """Mask these kinds in the context."""
    before = _kinds.set(tuple(kinds))
    try:
        yield
    finally:
        _kinds.reset(before)


def masked(text: str) -> str:
    """Return a text with every letter and digit of what is masked replaced by a dot, of the same length."""
    if not (kinds := _kinds.get()):
        return text
    for kind in kinds:
        text = COMPILED[kind].sub(_hide, text)
    return CUT.sub(_hide, text) if "…" in text else text


def _hide(found: re.Match[str]) -> str:
    return re.sub(r"\w", "•", found[0])


def masked_parts(parts: Sequence[str], separator: str) -> list[str]:
    """Return the parts of one text, which `separator` joins, with what is masked in the whole text."""
    whole, place, found = masked(separator.join(parts)), 0, list[str]()
    for part in parts:
        found.append(whole[place : place + len(part)])
        place += len(part) + len(separator)
    return found


def masked_value(value: Any) -> Any:
    """Return a value of a template, masked if it is a text and no markup, whose texts were masked before."""
    return masked(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
