"""Tags of parts of speech: the split into notional (content) and function words, and files of the user with tags.

Chinese uses the tags of the jieba dictionary, English the universal tags (UPOS). The columns of a file are separated by
tabs and have no header; `# ` begins a comment.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epigram.core.errors import DataError
from epigram.core.files import read_limited_text
from epigram.text.dataset.language import Language, as_language

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


def read_table(path: Path, columns: list[str]) -> pl.DataFrame:
    """Return the lines of a file as text in `columns`. Raises DataError for a line that does not have all of them."""
    try:
        lines = read_limited_text(path).split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("# "):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != len(columns) or not all(cells):
            expected = f"{len(columns)} columns separated by tabs: {', '.join(columns)}"
            raise DataError(f"{path} line {number} has {len(cells)} columns or an empty one; expected {expected}")
        rows.append(cells)
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def read_tags(path: Path, language: Language) -> dict[str, str]:
    """Return the tag of each word of a file with the columns word and tag."""
    table = read_table(path, ["word", "tag"])
    _check_tags(path, table["tag"].to_list(), language)
    return dict(table.iter_rows())


def read_corrections(path: Path) -> pl.DataFrame:
    """Return the corrections in a file with the columns word, language (zh or en) and tag.

    A word may have several lines; each counts as one occurrence. The result has the columns `entry`, `language`, `tag`
    and `frequency`.
    """
    table = read_table(path, ["word", "language", "tag"])
    for (language,), rows in table.group_by("language", maintain_order=True):
        if language not in {"zh", "en"}:
            raise DataError(f"{path} has the language {language!r}; expected zh or en")
        _check_tags(path, rows["tag"].to_list(), as_language(str(language)))
    return table.select(pl.col("word").alias("entry"), "language", "tag", frequency=pl.lit(1, pl.Int64))


def _check_tags(path: Path, tags: list[str], language: Language) -> None:
    """Raise DataError for a tag outside the tag set of `language`."""
    for tag in tags:
        known = tag in {*NOTIONAL_EN, *FUNCTION_EN} if language == "en" else tag[0] in {*NOTIONAL_ZH, *FUNCTION_ZH}
        if not known and tag != FOREIGN_ZH:
            expected = "a universal tag such as NOUN" if language == "en" else "a tag of jieba such as n"
            raise DataError(f"{path} has the tag {tag!r}; expected {expected}")
