"""Labels for texts without any, from Python and for a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from epigram.core.errors import DataError
from epigram.data.sources.http import part_path
from epigram.data.sources.inspection import guess_language
from epigram.data.tables import CONFIDENCE, LABELLED_BY, Options
from epigram.inference.predictors.base_predictor import list_texts
from epigram.inference.table_writer import as_columns, check_output, table_writer
from epigram.inference.tables import TEXT, read_rows
from epigram.labelling.answer_file import AnswerFile
from epigram.labelling.endpoint import Endpoint, Requests, label_by_endpoint
from epigram.labelling.label_list import NO_ANSWER, Answer, Labels, as_labels
from epigram.labelling.similarity import find_encoder, label_by_similarity
from epigram.text.dataset.language import Language
from epigram.text.tokens.characters import strip

JOIN = " "  # separator of several text columns, as in `epigram fit`


class Labelled(NamedTuple):
    """The label of each text, None for a text without one, and its confidence from 0 to 1."""

    labels: list[str | None]
    confidences: list[float]

    @classmethod
    def of(cls, texts: Sequence[str], answers: Mapping[str, Answer]) -> Labelled:
        """Return the answer for each text."""
        found = [answers.get(each, NO_ANSWER) for each in texts]
        return cls([name for name, _ in found], [confidence for _, confidence in found])


def label(
    texts: Iterable[str],
    labels: Iterable[str] | Mapping[str, str],
    *,
    language: Language | None = None,
    endpoint: str | None = None,
    model: str = "",
) -> Labelled:
    """Label texts by the names of the labels: by an installed pretrained encoder, or by a language model.

    `labels` are names, or a mapping from names to descriptions. The encoder is one for the `language`, which is
    detected by default. Instead, the `model` at an OpenAI-compatible `endpoint` (an address that ends in /v1) labels
    the texts; the environment variable OPENAI_API_KEY has its key, if it needs one. A text of nothing but whitespace
    has no label, and the confidence 0; so has a text for which the model names no known label.
    Raises ParameterError for texts that are no list of strings and for fewer than two labels, InputMissingError if no
    encoder for the language is installed, SourceUnavailableError if the endpoint does not answer.
    """
    listed, names, answers = list_texts(texts), as_labels(labels), dict[str, Answer]()
    if endpoint is None:
        answers, _ = _by_encoder(listed, names, language)
    else:
        label_by_endpoint(Requests.of(_different(listed), names), names, Endpoint(endpoint, model), answers.update)
    return Labelled.of(listed, answers)


def label_table(
    source: Path,
    labels: Labels,
    out: Path,
    *,
    text: Sequence[str] | None = None,
    language: Language | None = None,
    endpoint: Endpoint | None = None,
    agree: Callable[[Requests], None] = lambda requests: None,
    force: bool = False,
    options: Options | None = None,
) -> Labelled:
    """Label the texts of a table or of a file with one text per line, and write it with the labels to `out`.

    The added columns are label, confidence and LABELLED_BY, the name of the encoder or of the model at the `endpoint`.
    The function `agree` gets the requests before a text is sent. A run with the same settings as one that has ended
    early goes on where it stopped. The columns `text` (by default text) are joined. `options` are known options of the
    reader. Raises DataError if there are no texts, ParameterError for columns that do not fit and, without `force`, if
    `out` exists.
    """
    check_output(out, force=force)
    added = ["label", CONFIDENCE, LABELLED_BY]
    parts = list(read_rows(source, text, ["text"], JOIN, added, options))
    if not parts:
        raise DataError(f"{source} has no text; expected texts to label")
    rows = pl.concat(parts, how="vertical_relaxed")
    texts, file = rows[TEXT].to_list(), None
    if endpoint is None:
        answers, by = _by_encoder(texts, labels, language)
    else:
        file, by = AnswerFile(part_path(out), endpoint, labels), endpoint.model
        requests = Requests.of([each for each in _different(texts) if each not in file.answers], labels)
        if requests.batches:
            agree(requests)
            label_by_endpoint(requests, labels, endpoint, file.add)
        answers = file.answers
    found = Labelled.of(texts, answers)
    columns = [
        pl.Series("label", found.labels, pl.String),
        pl.Series(CONFIDENCE, found.confidences, pl.Float64).round(4),
        pl.Series(LABELLED_BY, [by] * len(texts)),
    ]
    with table_writer(out) as write:
        write(as_columns(rows.drop(TEXT)).with_columns(columns))
    if file is not None:
        file.remove()
    return found


def _different(texts: Sequence[str]) -> list[str]:
    """Return the texts to label: each once, without empty ones."""
    return list(dict.fromkeys(filter(strip, texts)))


def _by_encoder(texts: Sequence[str], labels: Labels, language: Language | None) -> tuple[dict[str, Answer], str]:
    """Return the answers of the encoder for the language of the texts, and its name."""
    language = language or guess_language(texts)
    checkpoint = find_encoder(language)
    return label_by_similarity(_different(texts), labels, checkpoint, language), checkpoint
