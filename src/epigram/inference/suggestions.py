"""Texts of an unlabelled pool that are worth labelling next: uncertain ones that differ from each other.

Margin sampling (Settles, Active Learning Literature Survey, 2009). The pool is read in chunks; memory holds only the
most uncertain texts so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.data.tables import CONFIDENCE, LABELLED_BY, Options, is_marked
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.inference.table_writer import as_columns
from epigram.inference.tables import TEXT, read_rows
from epigram.text.dataset.language import Language, as_language
from epigram.text.dataset.text_matching import loose_text
from epigram.text.tokens.characters import cosines, ngram_sets

SIMILAR = 0.5  # cosine with a suggested text at which a text is skipped
CANDIDATES = 50  # times as many uncertain texts are kept as suggestions are wanted
ADDED = ("prediction", "probability", "uncertainty")  # columns
KEY = "#key"  # column


@dataclass(frozen=True)
class Suggestions:
    """Rows with the columns ADDED, and their texts and predictions."""

    rows: pl.DataFrame
    texts: list[str]
    answers: list[TextPrediction]


def suggest(
    predictor: BasePredictor, pool: Path, text: Sequence[str] | None, count: int, options: Options | None = None
) -> Suggestions:
    """Return the rows of the at most `count` texts of `pool` that are most worth labelling, most uncertain first.

    The pool is a file with one text per line, or a table with the texts in the columns `text`, of which `predict_table`
    has the default; the rows have all its columns and the columns ADDED. Empty texts, equal texts and texts similar to
    a suggested one are skipped. In a table that a machine has labelled, its least confident labels come first, and rows
    of a person are skipped. `options` are known options of its reader. Raises DataError if the pool has no text,
    ParameterError for columns that do not fit.
    """
    candidates: pl.DataFrame | None = None
    for rows in read_rows(pool, text, predictor.text_columns, predictor.join, [*ADDED, KEY], options):
        scored = _score(predictor, rows)
        merged = scored if candidates is None else pl.concat([candidates, scored], how="vertical_relaxed")
        ranked = merged.sort("uncertainty", descending=True, maintain_order=True)
        candidates = ranked.unique(KEY, keep="first", maintain_order=True).head(CANDIDATES * count)
    if candidates is None or not candidates.height:
        raise DataError(f"{pool} has no text; expected texts to choose from")
    language = as_language(predictor.language)
    chosen = candidates[choose_different(candidates[KEY].to_list(), language, count)]
    texts = chosen[TEXT].to_list()
    answers = predictor.predict(texts)
    rows = chosen.drop(KEY, TEXT, "uncertainty").with_columns(
        prediction=pl.Series([answer.label for answer in answers], dtype=pl.String),
        probability=pl.Series([answer.probability for answer in answers], dtype=pl.Float64),
        uncertainty=chosen["uncertainty"],
    )
    return Suggestions(rows, texts, answers)


def uncertainty(probabilities: NDArray[np.floating[Any]], thresholds: list[float] | None) -> NDArray[Any]:
    """Return how uncertain each row of `probabilities` (N, C) is, from 0 to 1, (N,).

    It is 1 less the margin: the difference of the two highest probabilities, or, with `thresholds` (C,) of several
    labels, the smallest distance of a probability from its threshold.
    """
    if thresholds is not None:
        return np.asarray(1.0 - np.abs(probabilities - np.array(thresholds)).min(1))
    if probabilities.shape[1] == 1:
        return np.zeros(len(probabilities))
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return np.asarray(1.0 - (first - second))


def choose_different(texts: list[str], language: Language, count: int) -> list[int]:
    """Return the first `count` places of `texts` of which none is similar to one before it."""
    sets, free, chosen = ngram_sets(texts, language), np.ones(len(texts), np.bool_), list[int]()
    while len(chosen) < count and free.any():
        place = int(free.argmax())
        chosen.append(place)
        free &= cosines(sets, sets[[place]]) < SIMILAR
    return chosen


def _score(predictor: BasePredictor, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a text, with the columns KEY and uncertainty."""
    keyed = rows.with_columns(pl.DataFrame({"text": rows[TEXT]}).select(loose_text().alias(KEY)).to_series())
    keyed = keyed.filter(keyed[KEY] != "")
    labels = as_columns(keyed)
    if {LABELLED_BY, CONFIDENCE} <= set(labels.columns):
        confidence = pl.col(CONFIDENCE).cast(pl.Float64, strict=False).fill_null(0.0)
        keyed = keyed.with_columns(labels.select((1.0 - confidence).round(4).alias("uncertainty")).to_series())
        return keyed.filter(labels.select(is_marked()).to_series())
    probabilities = predictor.probabilities(keyed[TEXT].to_list())
    found = uncertainty(probabilities, predictor.thresholds if predictor.multi else None)
    return keyed.with_columns(uncertainty=pl.Series(found, dtype=pl.Float64))
