"""Texts without labels that students learn from: a file of the user, without the texts that the corpus has."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from epigram.core.errors import DataError
from epigram.core.files import sha256
from epigram.text.dataset.encoded_dataset import UNLABELLED
from epigram.text.dataset.raw_texts import TEXTS, TRAIN_TEXTS
from epigram.text.dataset.validated_corpus import BATCH, SPLITS, ValidatedCorpus
from epigram.text.local_files import LOCAL_FOLDER
from epigram.text.token_arrays import RowEncoder, array_files
from epigram.text.unlabelled import read_lines


@dataclass(frozen=True)
class StudentTexts:
    """Different texts (columns `row` and `text`), and how many lines of their file were left out.

    `held_out` lines have the text of a row of dev or test, `known` lines the text of a training row.
    """

    frame: pl.DataFrame
    file: str
    held_out: int
    known: int
    models: dict[str, str]  # digest of every saved model in data/local, any of which may be a teacher

    @property
    def about(self) -> dict[str, Any]:
        """Entry `unlabelled` of view.json."""
        counts = {"file": self.file, "held_out": self.held_out, "known": self.known}
        # the train stage depends on view.json, so a student is trained again after a change of its teacher
        return {**counts, "texts": self.frame.height, "models": self.models}


def read_texts(file: Path, corpus: ValidatedCorpus) -> StudentTexts:
    """Read one text per line, in order, each text once, and leave out the texts of `corpus`.

    Raises DataError if none is left.
    """
    texts = pl.DataFrame({"text": list(read_lines(file))}, schema={"text": pl.String}).unique(maintain_order=True)
    train, *others = (corpus.frame(split, "text")["text"].str.strip_chars() for split in SPLITS)
    held_out = pl.col("text").is_in(pl.concat(others).implode())
    known = pl.col("text").is_in(train.implode())
    counts = texts.select(held_out=held_out.sum(), known=(known & ~held_out).sum()).row(0, named=True)
    left = texts.filter(~held_out & ~known).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    if not left.height:
        raise DataError(f"{file} has only texts that the data set has too; expected others")
    return StudentTexts(left, file.name, **counts, models=_model_digests(LOCAL_FOLDER))


def _model_digests(folder: Path) -> dict[str, str]:
    """Return a digest of all files of each saved model under `folder`, by its path; links are followed."""
    found, seen = {}, set()
    for place, folders, files in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in seen:  # a link to a folder above it
            folders.clear()
            continue
        seen.add(real)
        if "manifest.json" in files:
            listed = sorted(path for path in Path(place).rglob("*") if path.is_file())
            lines = "".join(f"{path.relative_to(place).as_posix()} {sha256(path)}\n" for path in listed)
            found[Path(place).as_posix()] = hashlib.sha256(lines.encode()).hexdigest()
            folders.clear()
    return dict(sorted(found.items()))


def write_texts(folder: Path, texts: StudentTexts, corpus: ValidatedCorpus, encoder: RowEncoder) -> None:
    """Write the texts and their token arrays into the `folder` of a view, and the training texts for a teacher."""
    texts.frame.write_parquet(folder / TEXTS)
    corpus.frame("train", "text").write_parquet(folder / TRAIN_TEXTS)
    with array_files(folder, UNLABELLED, encoder.types) as append:
        for batch in texts.frame.iter_slices(BATCH):
            append(encoder.encode(batch), {"rows": batch["row"].to_numpy()})


@dataclass(frozen=True, kw_only=True)
class WithTexts(ValidatedCorpus):
    """Corpus with the training texts of `corpus` and further texts, for a vocabulary of both."""

    further: pl.DataFrame

    @classmethod
    def of(cls, corpus: ValidatedCorpus, texts: StudentTexts) -> WithTexts:
        """Return `corpus` with the training texts and `texts`."""
        return cls(**vars(corpus), further=texts.frame.select("text"))

    def _scan(self, split: str) -> pl.LazyFrame:
        return pl.concat([super()._scan(split).select("text"), self.further.lazy()])
