"""Part-of-speech tagger that runs a spaCy pipeline in a folder of the user. Requires the extra `spacy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from epigram.core.config_types import shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import require
from epigram.text.dataset.language import Language

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
