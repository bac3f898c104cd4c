"""Which parts of speech are notional (carry content) and which are function words.

Chinese uses the tags of the jieba dictionary, English the universal ones (UPOS).
"""

from __future__ import annotations

from typing import Literal
from unicodedata import category

import polars as pl

Language = Literal["zh", "en"]

# First letters. Beside the nouns, verbs and so on: g and x are bound characters such as 蟀 of 蟋蟀, j abbreviations.
NOTIONAL_ZH = tuple("nvadmqrtsfbzilgjx")
FUNCTION_ZH = tuple("pcuyeowkh")
FOREIGN_ZH = "eng"  # a Latin word inside Chinese text is notional; its first letter would say interjection
NOTIONAL_EN = ("NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM")
FUNCTION_EN = ("ADP", "AUX", "CCONJ", "DET", "INTJ", "PART", "PRON", "PUNCT", "SCONJ", "SYM", "X")

# Unicode categories of marks: punctuation, blanks, combining and control characters, signs. Emoji (So) carry feeling.
MARK_CATEGORIES = frozenset(
    ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp", "Mn", "Mc", "Me", "Cc", "Cf", "Sm", "Sc", "Sk")
)


def is_mark(entry: str) -> bool:
    """Whether `entry` is nothing but marks: a function token, whatever the language."""
    return all(category(character) in MARK_CATEGORIES for character in entry)


def is_number(entry: str) -> bool:
    """Whether `entry` is a number such as 3, 2.5 or 10:30."""
    return entry[:1].isnumeric() and all(character.isnumeric() or character in ".,:/" for character in entry)


def is_notional(tag: pl.Expr, language: Language, adverb: str) -> pl.Expr:
    """Boolean expression over a column of tags; `adverb` is "notional" or "function"."""
    if language == "en":
        return tag.is_in(NOTIONAL_EN) & ((tag != "ADV") | (adverb == "notional"))
    letter = tag.str.head(1)
    return (tag == FOREIGN_ZH) | (letter.is_in(NOTIONAL_ZH) & ((letter != "d") | (adverb == "notional")))


def as_language(name: str) -> Language:
    """`name` as a language; anything but Chinese is read as English (blanks between words)."""
    return "zh" if name == "zh" else "en"
