"""Texts without labels that students learn from: a file of the user, less the texts that the corpus has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from epigram.core.errors import DataError
from epigram.text.dataset.encoded_dataset import UNLABELLED
from epigram.text.dataset.validated_corpus import BATCH, SPLITS, ValidatedCorpus
from epigram.text.token_arrays import RowEncoder, array_files
from epigram.text.unlabelled import read_lines

TEXTS = f"{UNLABELLED}.parquet"


@dataclass(frozen=True)
class StudentTexts:
    """Different texts (columns `row` and `text`), and how many lines of their file were left out.

    `held_out` lines have the text of a row of dev or test, `known` ones that of a training row.
    """

    frame: pl.DataFrame
    file: str
    held_out: int
    known: int

    @property
    def about(self) -> dict[str, Any]:
        """Entry `unlabelled` of view.json."""
        counts = {"file": self.file, "held_out": self.held_out, "known": self.known}
        return {**counts, "texts": self.frame.height}


def read_texts(file: Path, corpus: ValidatedCorpus) -> StudentTexts:
    """Read one text per line, in order, each text once, and leave out those of `corpus`.

    Raises DataError if none is left.
    """
    texts = pl.DataFrame({"text": list(read_lines(file))}, schema={"text": pl.String}).unique(maintain_order=True)
    train, *others = (_texts_of(corpus, split) for split in SPLITS)
    held_out = pl.col("text").is_in(pl.concat(others).implode())
    known = pl.col("text").is_in(train.implode())
    counts = texts.select(held_out=held_out.sum(), known=(known & ~held_out).sum()).row(0, named=True)
    left = texts.filter(~held_out & ~known).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    if not left.height:
        raise DataError(f"{file} has only texts that the data set has too; expected others")
    return StudentTexts(left, file.name, **counts)


def _texts_of(corpus: ValidatedCorpus, split: str) -> pl.Series:
    """Return the texts of a split without whitespace around them."""
    return corpus.frame(split, "text")["text"].str.strip_chars()


def write_texts(folder: Path, texts: StudentTexts, encoder: RowEncoder) -> None:
    """Write the texts and their token arrays into the `folder` of a view, batch by batch."""
    texts.frame.write_parquet(folder / TEXTS)
    with array_files(folder, UNLABELLED, encoder.types) as append:
        for batch in texts.frame.iter_slices(BATCH):
            append(encoder.encode(batch), {"rows": batch["row"].to_numpy()})


def load_texts(folder: Path) -> list[str]:
    """Return the texts in the `folder` of a view, in the order of their arrays."""
    return pl.read_parquet(folder / TEXTS, glob=False)["text"].to_list()


@dataclass(frozen=True, kw_only=True)
class WithTexts(ValidatedCorpus):
    """Corpus whose training texts are those of `corpus` and further ones, for a vocabulary of both."""

    further: pl.DataFrame

    @classmethod
    def of(cls, corpus: ValidatedCorpus, texts: StudentTexts) -> WithTexts:
        """Return `corpus` with the training texts and `texts`."""
        return cls(**vars(corpus), further=texts.frame.select("text"))

    def _scan(self, split: str) -> pl.LazyFrame:
        return pl.concat([super()._scan(split).select("text"), self.further.lazy()])
