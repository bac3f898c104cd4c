"""Token labels from marked parts of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError

OUTSIDE = "O"
COLUMNS = pl.Schema({"tokens": pl.List(pl.String), "token_labels": pl.List(pl.String)})


def label_tokens(frame: pl.DataFrame, language: Literal["zh", "en"], file: str) -> pl.DataFrame:
    """Replace the column `spans` by tokens and token_labels.

    A span is a substring of the text (its first occurrence counts), or start and end in characters, with or without a
    label: [0, 5], [0, 5, "LOC"], {"start": 0, "end": 5, "label": "LOC"}. A span without a label has the label of the
    row. Tokens are those of the `token` view: characters in Chinese, words in English. Raises DataError for a span
    that is not in its text or has no label.
    """
    rows = []
    for line, text, label, spans in frame.select("line", "text", _row_label(frame), "spans").iter_rows():
        located_spans = [_locate_span(span, text, label, f"{file} row {line}") for span in spans or []]
        tokens = _tokenize(text, language)
        rows.append(
            ([token for token, _, _ in tokens], [_token_label(start, end, located_spans) for _, start, end in tokens])
        )
    return frame.drop("spans").hstack(pl.DataFrame(rows, schema=COLUMNS, orient="row"))


def _row_label(frame: pl.DataFrame) -> pl.Expr:
    single = "label" in frame.columns and frame.schema["label"] == pl.String
    return pl.col("label") if single else pl.lit(None, dtype=pl.String).alias("label")


def _locate_span(span: Any, text: str, label: str | None, where: str) -> tuple[int, int, str]:
    """Return start, end and label of a span."""
    if isinstance(span, str):
        start = text.find(span)
        end = start + len(span)
    else:
        values: Sequence[Any] = (
            [span.get(key) for key in ("start", "end", "label")] if isinstance(span, dict) else [*span, None, None]
        )
        label = label if values[2] is None else str(values[2])
        start, end = _to_int(values[0]), _to_int(values[1])
    if not 0 <= start < end <= len(text):
        raise DataError(f"{where}: span {shown(repr(span))} is not in the text {text[:60]!r}")
    if label is None:
        raise DataError(f"{where}: span {shown(repr(span))} has no label")
    return start, end, label


def _to_int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def _tokenize(text: str, language: str) -> list[tuple[str, int, int]]:
    """Return token, start and end of each token; whitespace between words is left out."""
    if language == "zh":
        return [(character, index, index + 1) for index, character in enumerate(text)]
    from tokenizers import Regex, pre_tokenizers

    from epigram.text.tokens.tokenizers import WORD_PATTERN

    words = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True).pre_tokenize_str(text)
    return [(text[start:end], start, end) for _, (start, end) in words]


def _token_label(start: int, end: int, located_spans: list[tuple[int, int, str]]) -> str:
    """Return the label of the first span that overlaps the token."""
    return next((label for begin, stop, label in located_spans if start < stop and begin < end), OUTSIDE)
