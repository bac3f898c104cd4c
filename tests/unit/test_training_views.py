"""What training takes from a view: which token labels are shown, and which class is the plain one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pithy.text.view import Split
from pithy.training.views import batches_of, context_of, frame_of

LENGTHS = np.array([2, 3, 1, 4, 2, 3, 2, 3, 1, 1])
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 1])


class Words:
    """A view of ten texts; every word of class 0 has the label 1 or 2, those of class 1 mostly the default."""

    view, language, task, tokenizer = "toy", "en", "single", "token"
    labels, token_labels, characters, vectors, checkpoint = ["marked", "plain"], ["O", "A", "B"], "", None, None
    prefix_ids: list[int] = []  # noqa: RUF012
    suffix_ids: list[int] = []  # noqa: RUF012
    pad_id, unk_id, mask_id, vocabulary, max_length = 0, 1, None, 30, 8

    def pos_weight(self) -> np.ndarray:
        return np.ones(30, np.float32)

    def split(self, name: str) -> Split:
        tokens = np.repeat(LABELS, LENGTHS) == 0
        return Split(
            ids=np.arange(len(tokens), dtype=np.int32) + 5,
            offsets=np.concatenate([[0], np.cumsum(LENGTHS)]),
            labels=LABELS,
            rows=np.arange(10),
            in_train=None,
            token_labels=np.where(tokens, 1 + np.arange(len(tokens)) % 2, 0).astype(np.int16),
            words=np.zeros(len(tokens), np.int32),
            characters=None,
            spelling=None,
        )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_the_texts_shows_its_token_labels(share: float) -> None:
    view: Any = Words()
    texts = batches_of(view, "train", frame_of(view, 8), shown=(share, 3))
    labels = texts.gather(np.arange(10)).labels
    assert labels is not None
    shown = (labels >= 0).any(1)
    assert int(shown.sum()) == round(10 * share)
    assert all((row[:length] >= 0).all() for row, length in zip(labels[shown], LENGTHS[shown.numpy()], strict=True))
    again = batches_of(view, "train", frame_of(view, 8), shown=(share, 3)).gather(np.arange(10)).labels
    assert again is not None
    assert again.equal(labels), "the same seed shows the same texts"


def test_the_plain_class_has_the_fewest_marked_tokens() -> None:
    view: Any = Words()
    assert context_of(view, 8).plain_class == 1
    assert context_of(view, 8).token_labels == ("O", "A", "B")
