"""The languages whose texts are handled; marks and numbers, told by the Unicode categories of their characters."""

from __future__ import annotations

from typing import Literal
from unicodedata import category

Language = Literal["zh", "en"]


def as_language(name: str) -> Language:
    """Return `name` as a language; every language except Chinese is treated as English (words separated by spaces)."""
    return "zh" if name == "zh" else "en"


# Unicode categories of marks: punctuation, spaces, combining and control characters, symbols.
# Emoji (So) are not marks, because they express sentiment.
MARK_CATEGORIES = frozenset(
    ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp", "Mn", "Mc", "Me", "Cc", "Cf", "Sm", "Sc", "Sk")
)


def is_mark(entry: str) -> bool:
    """Return whether `entry` consists only of marks, which are function tokens in every language."""
    return all(category(character) in MARK_CATEGORIES for character in entry)


def is_number(entry: str) -> bool:
    """Return whether `entry` is a number such as 3, 2.5 or 10:30."""
    return entry[:1].isnumeric() and all(character.isnumeric() or character in ".,:/" for character in entry)
