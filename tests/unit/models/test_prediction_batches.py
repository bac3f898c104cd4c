"""Tests of the size of the batches of a prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epigram.core.ragged import Ragged
from epigram.models.batches import TextBatches
from epigram.models.predict import batch_limits


def texts(count: int) -> TextBatches:
    return TextBatches(
        Ragged.from_lengths(np.ones(count, np.int32), np.ones(count, np.int64)),
        prefix=[],
        suffix=[],
        max_length=4,
        pad_id=0,
        unk_id=1,
    )


@pytest.mark.parametrize(("count", "most"), [(5, 16), (135, 16), (136, 17), (511, 63), (512, 64), (10_000, 64)])
def test_few_texts_are_read_in_small_batches_on_a_cpu(count: int, most: int) -> None:
    assert batch_limits(texts(count)) == (most, 4_096)
    sizes = [len(rows) for rows in texts(count).in_order(*batch_limits(texts(count)))]
    assert (max(sizes), sum(sizes)) == (min(most, count), count)


def test_a_gpu_reads_large_batches() -> None:
    few = texts(5)
    few.device = torch.device("cuda")
    assert batch_limits(few) == (256, 32_768)
