"""Time that a saved model takes from one text to its label, as in `epigram predict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from epigram.core.processors import count_processors
from epigram.inference.predictor import Predictor
from epigram.models.complexity import milliseconds

THREADS = 2  # of the CPU
SECONDS = 1.0  # after which a slow model predicts no more texts than necessary


def milliseconds_per_text(folder: Path, texts: Sequence[str], count: int) -> float:
    """Return the median milliseconds of predicting one text at a time, on the CPU with at most two threads.

    The time includes the tokenization. At most `count` of the `texts`, evenly spaced, are predicted.
    """
    predictor = Predictor(folder)
    some = [texts[row] for row in np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)]
    with _threads(min(THREADS, count_processors())):
        return milliseconds(lambda number: predictor.predict([some[number]]), len(some), seconds=SECONDS)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
