"""Labels for texts without any, from Python and for a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from epigram.core.errors import DataError
from epigram.data.sources.inspection import guess_language
from epigram.data.tables import LABELLED_BY, Options
from epigram.inference.predictors.base_predictor import list_texts
from epigram.inference.table_writer import as_columns, check_output, table_writer
from epigram.inference.tables import TEXT, read_rows
from epigram.labelling.label_list import NO_ANSWER, Labels, as_labels
from epigram.labelling.similarity import find_encoder, label_by_similarity
from epigram.text.dataset.language import Language
from epigram.text.tokens.characters import strip

JOIN = " "  # separator of several text columns, as in `epigram fit`


class Labelled(NamedTuple):
    """The label of each text, None for a text without one, and its confidence from 0 to 1."""

    labels: list[str | None]
    confidences: list[float]


def label(
    texts: Iterable[str], labels: Iterable[str] | Mapping[str, str], *, language: Language | None = None
) -> Labelled:
    """Label texts by their similarity to the names of the labels, as an installed pretrained encoder sees it.

    `labels` are names, or a mapping from names to descriptions. The `language` is detected by default. A text of
    nothing but whitespace has no label, and the confidence 0. Raises ParameterError for texts that are no list of
    strings and for fewer than two labels, InputMissingError if no encoder for the language is installed.
    """
    listed = list_texts(texts)
    return _labelled(listed, as_labels(labels), language or guess_language(listed))[0]


def label_table(
    source: Path,
    labels: Labels,
    out: Path,
    *,
    text: Sequence[str] | None = None,
    language: Language | None = None,
    force: bool = False,
    options: Options | None = None,
) -> Labelled:
    """Label the texts of a table or of a file with one text per line, and write it with the labels to `out`.

    The added columns are label, confidence and LABELLED_BY, the name of what has labelled the row. The columns `text`
    (by default text) are joined. `options` are known options of the reader. Raises DataError if there are no texts,
    ParameterError for columns that do not fit and, without `force`, if `out` exists.
    """
    check_output(out, force=force)
    added = ["label", "confidence", LABELLED_BY]
    parts = list(read_rows(source, text, ["text"], JOIN, added, options))
    if not parts:
        raise DataError(f"{source} has no text; expected texts to label")
    rows = pl.concat(parts, how="vertical_relaxed")
    texts = rows[TEXT].to_list()
    found, by = _labelled(texts, labels, language or guess_language(texts))
    columns = [
        pl.Series("label", found.labels, pl.String),
        pl.Series("confidence", found.confidences, pl.Float64).round(4),
        pl.Series(LABELLED_BY, [by] * len(texts)),
    ]
    with table_writer(out) as write:
        write(as_columns(rows.drop(TEXT)).with_columns(columns))
    return found


def _labelled(texts: Sequence[str], labels: Labels, language: Language) -> tuple[Labelled, str]:
    """Return the labels, and the name of the encoder; a text that occurs several times is labelled once."""
    checkpoint = find_encoder(language)
    different = list(dict.fromkeys(filter(strip, texts)))
    answers = label_by_similarity(different, labels, checkpoint, language)
    found = [answers.get(each, NO_ANSWER) for each in texts]
    return Labelled([name for name, _ in found], [confidence for _, confidence in found]), checkpoint
