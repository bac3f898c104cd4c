"""Reader for M2, the format of grammatical error correction: an S line is a sentence, A lines are its edits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import polars as pl

from epigram.core.errors import DataError
from epigram.data.decoding import read_lines
from epigram.data.readers import Reader, register
from epigram.data.readers.conll import SentenceLabels, infer_label

COLUMNS = pl.Schema({"line": pl.Int64(), "tokens": pl.List(pl.String), "token_labels": pl.List(pl.String)})
NO_EDIT = {"noop", "UNK"}


@register("m2")
@dataclass(frozen=True, kw_only=True)
class M2(Reader):
    """Reader for M2; the options say how edits become token labels."""

    labels_tokens: ClassVar[bool] = True

    correct: str = "c"  # label of a token without edits
    incorrect: str = "i"  # label of a token in an edit whose type is not in `types`
    types: dict[str, str] = field(default_factory=dict)  # error type (SPELL, VERB:TENSE) → token label
    annotator: str = "0"
    sentence: SentenceLabels | None = None
    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield line (of the S line), text, tokens, token_labels, and label if it is inferred.

        An edit that only inserts marks the next token, or the last one at the end of a sentence. Raises DataError for
        an invalid edit.
        """
        rows: list[tuple[int, list[str], list[str]]] = []
        for number, line in read_lines(path, self.encoding).iter_rows():
            if line.startswith("S "):
                tokens = line[2:].split()
                rows.append((number, tokens, [self.correct] * len(tokens)))
            elif line.startswith("A ") and rows:
                _apply_edit(rows[-1][2], line, self, f"{path} line {number}")
            elif line.strip():
                raise DataError(f"{path} line {number} is neither a sentence (S …) nor an edit (A …): {line[:80]!r}")
        frame = pl.DataFrame(rows, schema=COLUMNS, orient="row").with_columns(text=pl.col("tokens").list.join(" "))
        yield frame if self.sentence is None else frame.with_columns(label=infer_label(self.sentence))


def _apply_edit(labels: list[str], line: str, options: M2, where: str) -> None:
    """Apply an edit to `labels`, for example A 3 4|||R:NOUN|||correction|||REQUIRED|||-NONE-|||0."""
    parts = line[2:].split("|||")
    try:
        start, end = (int(value) for value in parts[0].split())
        kind, annotator = parts[1], parts[-1].strip()
    except (ValueError, IndexError):
        raise DataError(f"{where} is not a valid edit: {line[:80]!r}") from None
    if kind in NO_EDIT or annotator != options.annotator or not labels:
        return
    start = min(start, len(labels) - 1)
    if not 0 <= start <= end <= len(labels):
        raise DataError(f"{where} edits tokens {start} to {end} of a sentence of {len(labels)} tokens: {line[:80]!r}")
    label = options.types.get(kind.partition(":")[2], options.incorrect)
    labels[start : max(end, start + 1)] = [label] * (max(end, start + 1) - start)
