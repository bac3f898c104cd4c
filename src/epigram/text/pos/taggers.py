"""Part-of-speech taggers.

Chinese uses the tags of the jieba dictionary, English the universal tags (UPOS).

Setting `pos_table.tagger` selects it; `tagger_for` returns it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import require
from epigram.text.dataset.language import Language, is_mark, is_number
from epigram.text.dataset.segmenter import frequencies_of, jieba, tokenizer_with
from epigram.text.local_files import local_path
from epigram.text.pos.lexicons import SCHEMA
from epigram.text.pos.pos_table import PosTable
from epigram.text.pos.tagsets import read_tags
from epigram.text.settings import NO_TAGGER
from epigram.text.tokens.tokenizers import split_words

TaggedText = list[tuple[str, str]]  # (word, tag) in the order of the text

UNUSED = ("parser", "ner", "lemmatizer")  # components that tags do not depend on
# Tags of jieba for the universal tags. An auxiliary, such as 能, is a verb for jieba.
CHINESE = {
    "ADJ": "a", "ADP": "p", "ADV": "d", "AUX": "v", "CCONJ": "c", "DET": "r", "INTJ": "e", "NOUN": "n", "NUM": "m",
    "PART": "u", "PRON": "r", "PROPN": "nz", "PUNCT": "w", "SCONJ": "c", "SYM": "w", "VERB": "v", "X": "x",
}  # fmt: skip


# Suffixes that determine the tag of an English word outside the table; the default is NOUN.
SUFFIXES = {
    "ADV": ("ly",),
    "VERB": ("ing", "ed", "ize", "ise", "ify"),
    "ADJ": ("ous", "ful", "able", "ible", "ive", "ical", "ish", "less", "ic", "al"),
}


@dataclass(frozen=True)
class Tagger:
    """Tagger of a language; `tag` yields the words of each text with their tags, in the tag set of the language."""

    name: str
    language: Language
    tag: Callable[[Iterable[str]], Iterator[TaggedText]]


def spacy_tagger(folder: Path, language: Language) -> Tagger:
    """Return the tagger that runs the spaCy pipeline in `folder`.

    Raises MissingPackageError without spaCy, DataError if the pipeline cannot be loaded or, while it tags, sets no part
    of speech, and ParameterError if it is for another language.
    """
    require(f"pos_table.tagger ({folder})", "spacy", "spacy")
    import spacy

    try:
        pipeline: Any = spacy.load(folder)
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"{folder} is not a spaCy pipeline that can be loaded ({shown(str(error))})") from None
    if pipeline.lang != language:
        raise ParameterError(
            f"params.yaml: pos_table.tagger is a spaCy pipeline for {pipeline.lang!r}, but the texts are "
            f"{language!r}; use a pipeline for {language!r}"
        )
    unused = [name for name in UNUSED if name in pipeline.pipe_names]

    def tag(texts: Iterable[str]) -> Iterator[TaggedText]:
        for document in pipeline.pipe(texts, disable=unused):
            tokens = [token for token in document if token.text.strip()]
            if not all(token.pos_ for token in tokens):
                raise DataError(f"{folder} sets no part of speech: it needs a tagger or a morphologizer")
            if language == "zh":
                yield [(token.text, CHINESE.get(token.pos_, "x")) for token in tokens]
            else:
                yield [(token.lower_, token.pos_) for token in tokens]

    return Tagger(f"spaCy {folder.name}", language, tag)


def jieba_tagger(tags: Mapping[str, str] = MappingProxyType({}), name: str = "jieba.posseg") -> Tagger:
    """Return the Chinese tagger of jieba.posseg; its tag `x` becomes `w` for punctuation. Whitespace is left out.

    `tags` are further words with their tags, which override jieba's.
    """
    tagger = jieba().posseg.dt
    if tags:
        tagger = jieba().posseg.POSTokenizer(tokenizer_with(frequencies_of(tags)))
        tagger.word_tag_tab.update(tags)

    def tag(texts: Iterable[str]) -> Iterator[TaggedText]:
        for text in texts:
            pairs = ((pair.word, pair.flag) for pair in tagger.cut(text))
            yield [(word, "w" if flag == "x" and is_mark(word) else flag) for word, flag in pairs if word.strip()]

    return Tagger(name, "zh", tag)


def table_tagger(table: PosTable, tags: Mapping[str, str] = MappingProxyType({}), name: str = "table") -> Tagger:
    """Return the English tagger, which splits texts as the `token` view does.

    The tag of a word is its most frequent tag in the table, or guessed from shape and suffix for unknown words. `tags`
    are further words with their tags, which override the table's.
    """
    rows = table.frame.filter(pl.col("language") == "en")
    first = rows.select("entry", pl.col("parts").list.first().struct.field("tag"))
    known: dict[str, str] = dict(first.iter_rows()) | {word.lower(): tag for word, tag in tags.items()}

    def tag(texts: Iterable[str]) -> Iterator[TaggedText]:
        for words in split_words(texts):
            yield [(word, known.get(word) or guess_tag(word)) for word in words]

    return Tagger(name, "en", tag)


def guess_tag(word: str) -> str:
    """Return the UPOS tag of an English word that is not in the table."""
    if is_mark(word):
        return "PUNCT"
    if is_number(word):
        return "NUM"
    return next((tag for tag, endings in SUFFIXES.items() if word.endswith(endings) and len(word) > 4), "NOUN")


def count_tags(tagged: Iterable[TaggedText]) -> pl.DataFrame:
    """Return how often each (entry, tag) occurs: `entry`, `tag`, `frequency`, sorted."""
    counts: Counter[tuple[str, str]] = Counter()
    for words in tagged:
        counts.update(words)
    rows = sorted((entry, tag, frequency) for (entry, tag), frequency in counts.items())
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def tagger_for(language: Language, table: PosTable, root: Path = Path()) -> Tagger:
    """Return the tagger that the table's settings select; paths in them are relative to `root`.

    Raises ParameterError, InputMissingError or DataError if the setting, or its file or folder, is invalid.
    """
    setting = table.settings.tagger
    if setting == NO_TAGGER:
        return Tagger(NO_TAGGER, language, lambda texts: iter(()))  # finds no words, without reading the texts
    if setting == "builtin":
        return jieba_tagger() if language == "zh" else table_tagger(table)
    path = local_path(setting, "pos_table.tagger", root)
    if path.is_dir():
        return spacy_tagger(path, language)
    tags = read_tags(path, language)
    return jieba_tagger(tags, path.name) if language == "zh" else table_tagger(table, tags, path.name)
