"""The content of a batch, token by token."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.core.arrays import Ragged
from epigram.models.batches import UNLABELLED, TextBatches

IDS = [10, 11, 12, 13, 14, 15, 16]  # the texts [10, 11], [], [12, 13, 14, 15], [16]
OFFSETS = [0, 2, 2, 6, 7]


def batches(max_length: int = 9, prefix: tuple[int, ...] = (), suffix: tuple[int, ...] = ()) -> TextBatches:
    return TextBatches(
        Ragged(np.array(IDS), np.array(OFFSETS)),
        prefix=list(prefix),
        suffix=list(suffix),
        max_length=max_length,
        pad_id=0,
        unk_id=1,
        labels=np.array([5, 6, 7, 8]),
        token_labels=np.array([0, 1, 2, 3, 0, 1, 2]),
        characters=Ragged(np.array([21, 22, 23, 24, 25, 26, 27, 28]), np.array([0, 2, 2, 3, 4, 5, 6, 8])),
    )


def test_texts_are_padded_to_the_longest_of_the_batch() -> None:
    got = batches().gather(np.array([3, 0, 1]))
    assert got.ids.tolist() == [[16, 0], [10, 11], [1, 0]]  # an empty text is one unknown token
    assert got.valid.tolist() == [[True, False], [True, True], [True, False]]
    assert got.labels is not None and got.characters is not None
    assert got.labels.tolist() == [[2, UNLABELLED], [0, 1], [UNLABELLED, UNLABELLED]]
    assert got.characters.tolist() == [[[27, 28], [0, 0]], [[21, 22], [0, 0]], [[0, 0], [0, 0]]]


def test_prompt_and_special_tokens_stand_around_each_text() -> None:
    texts = batches(prefix=(2, 7), suffix=(3, 4))
    got = texts.gather(np.array([0, 2, 3]))
    assert got.ids.tolist() == [[2, 7, 10, 11, 3, 4, 0, 0], [2, 7, 12, 13, 14, 15, 3, 4], [2, 7, 16, 3, 4, 0, 0, 0]]
    assert got.valid.sum(1).tolist() == texts.lengths[[0, 2, 3]].tolist() == [6, 8, 5]
    assert got.labels is not None
    assert got.labels.tolist()[1] == [UNLABELLED, UNLABELLED, 2, 3, 0, 1, UNLABELLED, UNLABELLED]
    assert texts.own_tokens(np.array([3]), got.ids[2:].shape).tolist() == [[False, False, True, *[False] * 5]]


@pytest.mark.parametrize(
    ("max_length", "wanted"),
    [(8, [2, 7, 12, 13, 14, 15, 3, 4]), (7, [2, 7, 12, 13, 14, 3, 4]), (5, [2, 7, 12, 3, 4])],
)
def test_a_long_text_loses_its_end_and_nothing_else(max_length: int, wanted: list[int]) -> None:
    got = batches(max_length, prefix=(2, 7), suffix=(3, 4)).gather(np.array([2]))
    assert got.ids.tolist() == [wanted]
    with pytest.raises(ValueError, match="max_length 4"):
        batches(4, prefix=(2, 7), suffix=(3, 4))


def test_labels_are_those_of_the_rows_and_of_the_tokens_that_are_read() -> None:
    texts = batches(max_length=3)
    assert texts.targets(np.array([2, 0])).tolist() == [7, 5]
    labels = texts.read_labels()
    assert labels is not None and labels.tolist() == [0, 1, UNLABELLED, 2, 3, 0, 2]  # the third text is truncated
