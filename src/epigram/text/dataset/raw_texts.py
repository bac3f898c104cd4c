"""Texts of a view before they were encoded, which a teacher reads."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epigram.text.dataset.encoded_dataset import UNLABELLED

TEXTS, TRAIN_TEXTS = f"{UNLABELLED}.parquet", "train.parquet"


def load_texts(folder: Path, *, train: bool) -> list[str]:
    """Return the texts without labels in a view's `folder`, in row order; with `train`, after the texts of train."""
    files = [folder / TRAIN_TEXTS, folder / TEXTS] if train else [folder / TEXTS]
    return pl.concat([pl.read_parquet(file, glob=False).select("text") for file in files])["text"].to_list()
