"""Linear SVMs and texts of token ids for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.nn.layers.types import DataSpec

MAX_LENGTH = 8


def svm_of(
    *, classes: int = 2, vocabulary: int = 30, multi: bool = False, alphabet: int = 0, **settings: Any
) -> LinearSvm:
    """Return an untrained linear SVM; `alphabet` is the number of character ids."""
    context = DataSpec(vocabulary=vocabulary, classes=classes, max_length=MAX_LENGTH, multi=multi, characters=alphabet)
    return LinearSvmConfig(**settings).build(context)


def texts(labels: Any, rows: list[list[int]], spelling: list[list[int]] | None = None) -> TextBatches:
    """Return texts of the token ids `rows`; `spelling` has the character ids of each token."""
    return TextBatches(
        Ragged.from_lists(rows, np.int64), prefix=[], suffix=[], max_length=MAX_LENGTH, pad_id=0, unk_id=1,
        labels=np.array(labels), characters=None if spelling is None else Ragged.from_lists(spelling, np.int64),
    )  # fmt: skip


def words(labels: Any, ids: list[int]) -> TextBatches:
    """Return texts of one token each."""
    return texts(labels, [[token] for token in ids])
