"""Readings of a model's weights for test_mhal.py and other tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from epigram.nn.encoders.char_bilstm import CharBiLstmConfig
from epigram.nn.heads.attention_labeler import AttentionLabelerConfig, AttentionLabelerHead
from epigram.nn.layers.attention.attention_labeler import AttentionLabeler
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from tests.parity.reference import mhal as paper
from tests.parity.reference.batches import padded, pair, scattered
from tests.parity.reference.common import Array
from tests.support.mhal import SAME, WIDTH

LENGTHS = [5, 1, 9, 12, 2]
SAME_HEADS = [[1], [0], [2]]
TWO = replace(SAME, classes=2, labels=("marked", "plain"), token_labels=("O", "A", "B", "C"), plain_class=1)
TWO_HEADS = [[1, 2, 3], [0]]


def labeler(heads: int = 3) -> AttentionLabeler:
    return scattered(AttentionLabeler(inputs=WIDTH, hidden=10, text_hidden=5, heads=heads))


def heads_of(layer: AttentionLabeler) -> paper.Heads:
    names = ("join", "query", "key", "value", "text_hidden", "text_out")
    return paper.Heads(*(pair(getattr(layer, name)) for name in names), layer.heads)


class Masked(torch.nn.Module):
    """Dropout with a given mask."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape == self.mask.shape
        return x * self.mask


def head_of(context: DataSpec, **settings: Any) -> AttentionLabelerHead:
    encoder = CharBiLstmConfig(embedding=4, width=WIDTH // 2).build(context)
    return scattered(AttentionLabelerConfig(hidden=10, text_hidden=5, **settings).build(context, encoder))


def encoded(rows: list[Array], labels: list[list[int]] | None = None) -> Encoded:
    x, valid = padded(rows)
    wanted = None
    if labels is not None:
        wanted = torch.tensor([row + [-1] * (x.shape[1] - len(row)) for row in labels])
    return Encoded((x,), Tokens(torch.zeros(valid.shape, dtype=torch.int64), valid, labels=wanted))


def token_labels(context: DataSpec) -> list[list[int]]:
    generator = np.random.default_rng(3)
    return [generator.integers(-1, len(context.token_labels), length).tolist() for length in LENGTHS]
