"""Reader for tokens in columns, with a blank line between sentences: CoNLL-2003, CoNLL-U, token TAB label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import polars as pl

from epigram.core.errors import DataError
from epigram.data.decoding import read_lines
from epigram.data.readers import Reader, register
from epigram.data.sources.source import SourceSection


@dataclass(frozen=True, kw_only=True)
class SentenceLabels(SourceSection):
    """Inferred label of a sentence: `plain` if every token has the label `default`, `marked` otherwise."""

    default: str
    plain: str
    marked: str


@register("conll")
@dataclass(frozen=True, kw_only=True)
class Conll(Reader):
    """Reader for CoNLL files; columns are counted from 0, or from the end with -1."""

    labels_tokens: ClassVar[bool] = True

    separator: Literal["tab", "blank"] = "tab"
    token: int = 0
    token_label: int = -1
    comment: str | None = None  # leave out lines that start with this
    skip: str | None = None  # leave out sentences whose first token is this
    numbered: bool = False  # CoNLL-U: column 0 numbers tokens; leave out ranges (1-2) and empty nodes (1.1)
    prefix: Literal["keep", "drop"] = "keep"  # prefix of labels such as B-PER and I-PER
    sentence: SentenceLabels | None = None
    join: str = " "  # separator of tokens in the text
    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield line (of the first token), text, tokens, token_labels, and label if it is inferred.

        Raises DataError for a line with too few columns.
        """
        frame, blank = read_lines(path, self.encoding), pl.col("text").str.strip_chars() == ""
        frame = frame.with_columns(sentence=blank.cum_sum()).filter(~blank)
        if self.comment is not None:
            frame = frame.filter(~pl.col("text").str.starts_with(self.comment))
        tokens = _split_columns(frame, self, path)
        if self.prefix == "drop":
            tokens = tokens.with_columns(pl.col("token_label").str.replace("^[A-Z]-", ""))
        sentences = tokens.group_by("sentence", maintain_order=True).agg(
            pl.col("line").first(), tokens=pl.col("token"), token_labels=pl.col("token_label")
        )
        if self.skip is not None:
            sentences = sentences.filter(pl.col("tokens").list.first() != self.skip)
        frame = sentences.select("line", pl.col("tokens").list.join(self.join).alias("text"), "tokens", "token_labels")
        yield frame if self.sentence is None else frame.with_columns(label=infer_label(self.sentence))


def infer_label(labels: SentenceLabels) -> pl.Expr:
    """Return the sentence's label, inferred from `token_labels`."""
    marked = pl.col("token_labels").list.eval(pl.element() != labels.default).list.any()
    return pl.when(marked).then(pl.lit(labels.marked)).otherwise(pl.lit(labels.plain))


def _split_columns(frame: pl.DataFrame, options: Conll, path: Path) -> pl.DataFrame:
    """Split each line into columns and select the token and its label."""
    text = pl.col("text")
    cells = text.str.split("\t") if options.separator == "tab" else text.str.extract_all(r"\S+")
    frame = frame.with_columns(cells=cells)
    if options.numbered:
        frame = frame.filter(pl.col("cells").list.first().str.contains(r"^\d+$"))
    frame = frame.with_columns(
        token=pl.col("cells").list.get(options.token, null_on_oob=True),
        token_label=pl.col("cells").list.get(options.token_label, null_on_oob=True).str.strip_chars(),
    )
    required = max(_min_columns(options.token), _min_columns(options.token_label), 2)
    incomplete = frame.filter((pl.col("cells").list.len() < required) | pl.col("token_label").eq(""))
    if incomplete.height:
        first = incomplete.row(0, named=True)
        raise DataError(
            f"{path} line {first['line']} has too few columns, expected at least {required}: {first['text'][:80]!r}"
        )
    return frame


def _min_columns(column: int) -> int:
    """Return how many columns a line needs to have this one."""
    return column + 1 if column >= 0 else -column
