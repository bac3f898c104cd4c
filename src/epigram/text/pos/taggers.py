"""Part-of-speech taggers, and the split of their tags into notional (content words) and function words.

Chinese uses the tags of the jieba dictionary, English the universal tags (UPOS).

Setting `pos_table.tagger` selects it; `tagger_for` returns it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import require
from epigram.text.dataset.language import Language, is_mark, is_number
from epigram.text.dataset.segmenter import frequencies_of, jieba, tokenizer_with
from epigram.text.local_files import local_path
from epigram.text.pos.lexicons import SCHEMA
from epigram.text.pos.pos_table import PosTable
from epigram.text.pos.user_words import read_tags
from epigram.text.settings import NO_TAGGER
from epigram.text.tokens.tokenizers import split_words

TaggedText = list[tuple[str, str]]  # (word, tag) in the order of the text

UNUSED = ("parser", "ner", "lemmatizer")  # components that tags do not depend on
# Tags of jieba for the universal tags. An auxiliary, such as 能, is a verb for jieba.
CHINESE = {
    "ADJ": "a", "ADP": "p", "ADV": "d", "AUX": "v", "CCONJ": "c", "DET": "r", "INTJ": "e", "NOUN": "n", "NUM": "m",
    "PART": "u", "PRON": "r", "PROPN": "nz", "PUNCT": "w", "SCONJ": "c", "SYM": "w", "VERB": "v", "X": "x",
}  # fmt: skip


class SpacyTagger:
    """Tagger of a language that runs the spaCy pipeline in `folder`.

    Raises MissingPackageError without spaCy, DataError if the pipeline cannot be loaded, and ParameterError if it is
    for another language.
    """

    def __init__(self, folder: Path, language: Language) -> None:
        require(f"pos_table.tagger ({folder})", "spacy", "spacy")
        import spacy

        self.name, self.language, self._folder = f"spaCy {folder.name}", language, folder
        try:
            self._pipeline: Any = spacy.load(folder)
        except (OSError, ValueError, ImportError) as error:
            raise DataError(f"{folder} is not a spaCy pipeline that can be loaded ({shown(str(error))})") from None
        if self._pipeline.lang != language:
            raise ParameterError(
                f"params.yaml: pos_table.tagger is a spaCy pipeline for {self._pipeline.lang!r}, but the texts are "
                f"{language!r}; use a pipeline for {language!r}"
            )
        self._unused = [name for name in UNUSED if name in self._pipeline.pipe_names]

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """Yield the words of each text with their tags. Raises DataError if the pipeline sets no part of speech."""
        for document in self._pipeline.pipe(texts, disable=self._unused):
            tokens = [token for token in document if token.text.strip()]
            if not all(token.pos_ for token in tokens):
                raise DataError(f"{self._folder} sets no part of speech: it needs a tagger or a morphologizer")
            if self.language == "zh":
                yield [(token.text, CHINESE.get(token.pos_, "x")) for token in tokens]
            else:
                yield [(token.lower_, token.pos_) for token in tokens]


# Suffixes that determine the tag of an English word outside the table; the default is NOUN.
SUFFIXES = {
    "ADV": ("ly",),
    "VERB": ("ing", "ed", "ize", "ise", "ify"),
    "ADJ": ("ous", "ful", "able", "ible", "ive", "ical", "ish", "less", "ic", "al"),
}


class Tagger(Protocol):
    """Interface of a tagger."""

    name: str
    language: Language

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """Yield the words of each text with their tags, in the tag set of the tagger's language."""
        ...


class JiebaTagger:
    """Chinese tagger based on jieba.posseg; its tag `x` becomes `w` for punctuation.

    `tags` are further words with their tags, which override those of jieba.
    """

    language: Language = "zh"

    def __init__(self, tags: Mapping[str, str] = MappingProxyType({}), name: str = "jieba.posseg") -> None:
        self.name, package = name, jieba()
        tagger = package.posseg.dt
        if tags:
            tagger = package.posseg.POSTokenizer(tokenizer_with(frequencies_of(tags)))
            tagger.word_tag_tab.update(tags)
        self._cut = tagger.cut

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """Yield the tagged words of each text, without whitespace."""
        for text in texts:
            pairs = ((pair.word, pair.flag) for pair in self._cut(text))
            yield [(word, "w" if flag == "x" and is_mark(word) else flag) for word, flag in pairs if word.strip()]


class TableTagger:
    """English tagger: the most frequent tag of the table, or a tag guessed from shape and suffix for unknown words.

    `tags` are further words with their tags, which override those of the table.
    """

    language: Language = "en"

    def __init__(self, table: PosTable, tags: Mapping[str, str] = MappingProxyType({}), name: str = "table") -> None:
        self.name = name
        rows = table.frame.filter(pl.col("language") == self.language)
        first = rows.select("entry", pl.col("parts").list.first().struct.field("tag"))
        self._tags: dict[str, str] = dict(first.iter_rows()) | {word.lower(): tag for word, tag in tags.items()}

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """Yield the tagged words of each text, split as in the `token` view."""
        for words in split_words(texts):
            yield [(word, self._tags.get(word) or guess_tag(word)) for word in words]


def guess_tag(word: str) -> str:
    """Return the UPOS tag of an English word that is not in the table."""
    if is_mark(word):
        return "PUNCT"
    if is_number(word):
        return "NUM"
    return next((tag for tag, endings in SUFFIXES.items() if word.endswith(endings) and len(word) > 4), "NOUN")


class NoTagger:
    """Tagger that finds no words: the table keeps those of its sources."""

    name = NO_TAGGER

    def __init__(self, language: Language) -> None:
        self.language = language

    def tag(self, texts: Iterable[str]) -> Iterator[TaggedText]:
        """Yield nothing, without reading the texts."""
        return iter(())


def count_tags(tagged: Iterable[TaggedText]) -> pl.DataFrame:
    """Return how often each (entry, tag) occurs: `entry`, `tag`, `frequency`, sorted."""
    counts: Counter[tuple[str, str]] = Counter()
    for words in tagged:
        counts.update(words)
    rows = sorted((entry, tag, frequency) for (entry, tag), frequency in counts.items())
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def tagger_for(language: Language, table: PosTable, root: Path = Path()) -> Tagger:
    """Return the tagger that the table's settings select; paths in them are relative to `root`.

    Raises ParameterError, InputMissingError or DataError if the setting or what it names is invalid.
    """
    setting = table.settings.tagger
    if setting == NO_TAGGER:
        return NoTagger(language)
    if setting == "builtin":
        return JiebaTagger() if language == "zh" else TableTagger(table)
    path = local_path(setting, "pos_table.tagger", root)
    if path.is_dir():
        return SpacyTagger(path, language)
    tags = read_tags(path, language)
    return JiebaTagger(tags, path.name) if language == "zh" else TableTagger(table, tags, path.name)
