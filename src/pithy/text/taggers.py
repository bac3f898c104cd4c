"""Taggers: texts in, words with their parts of speech out. Any object with `name`, `language` and `tag` will do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import polars as pl

from pithy.text.lexicons import SCHEMA
from pithy.text.pos_table import PosTable
from pithy.text.segmenter import jieba
from pithy.text.tagsets import Language, is_mark, is_number
from pithy.text.tokenizers import split_words

TaggedText = list[tuple[str, str]]  # (word, tag) in the order of the text

# Endings that tell the part of speech of an English word that no table holds; a noun otherwise.
ENDINGS = {
    "ADV": ("ly",),
    "VERB": ("ing", "ed", "ize", "ise", "ify"),
    "ADJ": ("ous", "ful", "able", "ible", "ive", "ical", "ish", "less", "ic", "al"),
}


class Tagger(Protocol):
    """What the table needs of a tagger."""

    name: str
    language: Language

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """The words of each text with their tags, in the tag set of the tagger's language."""
        ...


class JiebaTagger:
    """Chinese words and tags by jieba.posseg; its `x` splits into marks (`w`) and foreign words (`eng`)."""

    name = "jieba.posseg"
    language: Language = "zh"

    def __init__(self) -> None:
        self._cut = jieba().posseg.dt.cut

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """The words of each text; blanks are left out."""
        for text in texts:
            pairs = ((pair.word, pair.flag) for pair in self._cut(text))
            yield [(word, "w" if flag == "x" and is_mark(word) else flag) for word, flag in pairs if word.strip()]


class TableTagger:
    """English words by the most frequent tag of the table, unseen ones by their shape and ending."""

    name = "table"
    language: Language = "en"

    def __init__(self, table: PosTable) -> None:
        rows = table.frame.filter(pl.col("language") == self.language)
        first = rows.select("entry", pl.col("parts").list.first().struct.field("tag"))
        self._tags: dict[str, str] = dict(first.iter_rows())

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """The words of each text as the `token` view cuts them."""
        for words in split_words(texts):
            yield [(word, self._tags.get(word) or by_shape(word)) for word in words]


def by_shape(word: str) -> str:
    """Universal tag of an English word that no table holds."""
    if is_mark(word):
        return "PUNCT"
    if is_number(word):
        return "NUM"
    return next((tag for tag, endings in ENDINGS.items() if word.endswith(endings) and len(word) > 4), "NOUN")


def count(tagged: Iterable[TaggedText]) -> pl.DataFrame:
    """How often each (entry, tag) occurs: `entry`, `tag`, `frequency`, sorted."""
    counts: Counter[tuple[str, str]] = Counter()
    for words in tagged:
        counts.update(words)
    rows = sorted((entry, tag, frequency) for (entry, tag), frequency in counts.items())
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def tagger_for(language: Language, table: PosTable) -> Tagger:
    """The tagger of a language."""
    return JiebaTagger() if language == "zh" else TableTagger(table)
