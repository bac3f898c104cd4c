"""Tests of the batches of a prediction: their size and their precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.predict import batch_limits, predict
from epigram.nn.layers.types import Prediction, Tokens


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


class Recorder(nn.Module):
    """Model that notes for each batch the precision of its products and whether gradients are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = list[tuple[torch.dtype, bool]]()

    def forward(self, tokens: Tokens) -> Prediction:
        """Return the logits (B, 2) of a product."""
        product = torch.zeros(len(tokens.ids), 3) @ torch.zeros(3, 2)
        self.seen.append((product.dtype, torch.is_inference(product)))
        return Prediction(product, None)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_every_batch_has_the_same_precision(precision: Any, dtype: torch.dtype) -> None:
    model = Recorder()
    predict(model, texts(200), precision=precision)
    assert model.seen == [(dtype, True)] * 8
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_inference_mode_enabled()
