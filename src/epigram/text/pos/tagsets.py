"""The split of part-of-speech tags into notional (content words) and function words.

Chinese uses the tags of the jieba dictionary, English the universal tags (UPOS).
"""

from __future__ import annotations

import polars as pl

from epigram.text.dataset.language import Language

# First letters of jieba tags; g and x are bound characters such as 蟀 in 蟋蟀, j marks abbreviations.
NOTIONAL_ZH = tuple("nvadmqrtsfbzilgjx")
FUNCTION_ZH = tuple("pcuyeowkh")
FOREIGN_ZH = "eng"  # a Latin word in Chinese text is notional; the first letter e would be an interjection
NOTIONAL_EN = ("NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM")
FUNCTION_EN = ("ADP", "AUX", "CCONJ", "DET", "INTJ", "PART", "PRON", "PUNCT", "SCONJ", "SYM", "X")


def is_notional(tag: pl.Expr, language: Language, adverb: str) -> pl.Expr:
    """Return a Boolean expression over a column of tags; `adverb` is "notional" or "function"."""
    if language == "en":
        return tag.is_in(NOTIONAL_EN) & ((tag != "ADV") | (adverb == "notional"))
    letter = tag.str.head(1)
    return (tag == FOREIGN_ZH) | (letter.is_in(NOTIONAL_ZH) & ((letter != "d") | (adverb == "notional")))
