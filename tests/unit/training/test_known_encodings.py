"""Tests of the encodings that folds share: what is encoded, and in which order it is returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.training.frozen.known_encodings import Encodings, KnownEncodings


def texts(*rows: list[int]) -> TextBatches:
    """Return texts of the token ids `rows`, between the special tokens 1 and 2."""
    flat = np.array([token for row in rows for token in row], np.int32)
    ids = Ragged.from_lengths(flat, np.array([len(row) for row in rows]))
    return TextBatches(ids, prefix=[1], suffix=[2], max_length=6, pad_id=0, unk_id=3)


class Encoder:
    """Encoder by the sum of the tokens times the weight of a model; it counts the texts that it encodes."""

    def __init__(self) -> None:
        self.encoded = 0

    def __call__(self, model: Any, batches: TextBatches) -> Any:
        self.encoded += len(batches)
        return model.weight.item() * batches.gather(np.arange(len(batches))).ids.sum(1, keepdim=True).numpy()


def model(weight: float = 1.0) -> Any:
    found = nn.Linear(1, 1, bias=False)
    nn.init.constant_(found.weight, weight)
    return found


def test_a_text_is_encoded_once_and_keeps_its_place() -> None:
    encode = Encoder()
    known = KnownEncodings(encode)
    assert_array_equal(known.of(model(), texts([10], [20], [30, 0])), [[13], [23], [33]])
    assert_array_equal(known.of(model(), texts([30, 0], [40], [10])), [[33], [43], [13]])
    assert_array_equal(known.of(model(), texts([10], [20, 20, 20])), [[13], [63]])  # a wider batch
    assert encode.encoded == 5


def test_texts_that_differ_by_padding_or_by_what_is_cut_off() -> None:
    """[30, 0] is longer than [30]; of a text of five tokens, four are read."""
    encode = Encoder()
    known = KnownEncodings(encode)
    known.of(model(), texts([30, 0]))
    known.of(model(), texts([30], [5, 6, 7, 8, 9]))
    known.of(model(), texts([5, 6, 7, 8]))
    assert encode.encoded == 3


def test_other_weights_are_another_encoder() -> None:
    encode = Encoder()
    known, trained = KnownEncodings(encode), model()
    known.of(trained, texts([10]))
    with torch.no_grad():
        trained.weight.mul_(2.0)
    assert_array_equal(known.of(trained, texts([10])), [[26]])
    assert_array_equal(known.of(model(3.0), texts([10])), [[39]])
    assert encode.encoded == 3


@pytest.mark.parametrize("names", [None, np.full((2, 3), 0.1)])
def test_encodings_are_read_as_they_were_written(names: Any, tmp_path: Path) -> None:
    written = Encodings(np.full((5, 3), 1 / 3), np.full((4, 3), 1e-300), names)
    written.write(tmp_path / "kept")
    for read, expected in zip(Encodings.read(tmp_path / "kept"), written, strict=True):
        assert (read is None) == (expected is None)
        assert_array_equal(read, expected)
