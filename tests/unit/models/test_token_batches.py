"""Tests of token labels and token characters: from flat arrays to batches and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from epigram.core.errors import ParameterError
from epigram.core.ragged import Ragged
from epigram.models.batches import UNLABELLED, TextBatches
from epigram.models.predict import dev_score, predict
from epigram.nn.layers.types import Prediction, Tokens

LENGTHS = [3, 0, 5, 1, 9]  # the second text is empty; the last is truncated


def batches(prefix: list[int], suffix: list[int], *, labelled: bool = True) -> TextBatches:
    tokens = sum(LENGTHS)
    counts = np.arange(tokens) % 4  # some tokens have no characters
    return TextBatches(
        Ragged.from_lengths(np.arange(10, 10 + tokens, dtype=np.int32), np.array(LENGTHS)),
        prefix=prefix,
        suffix=suffix,
        max_length=6 + len(prefix) + len(suffix),
        pad_id=0,
        unk_id=1,
        labels=np.array([0, 1, 0, 1, 0]),
        token_labels=np.arange(tokens) % 3 if labelled else None,
        characters=Ragged.from_lengths(np.arange(2, 2 + counts.sum(), dtype=np.int32), counts),
    )


class Echo(nn.Module):
    """Model that predicts each token's given label, and class 0 for each text."""

    def forward(self, tokens: Tokens) -> Prediction:
        assert tokens.labels is not None
        logits = torch.tensor([[1.0, 0.0]]).repeat(len(tokens.ids), 1)
        return Prediction(logits, tokens=8.0 * nn.functional.one_hot(tokens.labels.clamp(min=0), 3).float())


@pytest.mark.parametrize(("prefix", "suffix"), [([], []), ([7, 8], [9])])
def test_a_part_of_the_texts_has_their_tokens_and_their_labels(prefix: list[int], suffix: list[int]) -> None:
    texts, rows = batches(prefix, suffix), np.array([4, 0, 3])
    part, order = texts.part(rows), np.array([2, 0, 1])
    found, wanted = part.gather(order), texts.gather(rows[order])
    assert torch.equal(found.ids, wanted.ids)
    assert torch.equal(found.valid, wanted.valid)
    assert torch.equal(part.targets(order), texts.targets(rows[order]))
    assert part.targets(order).tolist() == [1, 0, 0]
    assert (len(part), sorted(np.concatenate(list(part.in_order(2, 99))).tolist())) == (3, [0, 1, 2])
    assert part.lengths.tolist() == texts.lengths[rows].tolist()


@pytest.mark.parametrize(("prefix", "suffix"), [([], []), ([7, 8], [9])])
def test_each_token_keeps_its_label_and_its_characters(prefix: list[int], suffix: list[int]) -> None:
    texts = batches(prefix, suffix)
    got = texts.gather(np.array([4, 0, 1, 2]))
    assert got.labels is not None
    assert got.characters is not None
    own = texts.own_tokens(np.array([4, 0, 1, 2]), got.ids.shape)
    assert own.sum(1).tolist() == [6, 3, 1, 5]
    assert (got.labels[~own] == UNLABELLED).all()
    assert (got.characters[~own] == 0).all()
    known = own & (got.ids >= 10)
    number = got.ids - 10  # number of the token in the corpus
    assert torch.equal(got.labels[known], number[known] % 3)
    assert torch.equal((got.characters > 0).sum(-1)[known], number[known] % 4)
    first = torch.tensor(np.concatenate([[0], np.cumsum(np.arange(18) % 4)]))[number.clamp(min=0)] + 2
    spelled = known & (number % 4 > 0)
    assert torch.equal(got.characters[..., 0][spelled], first[spelled])
    assert got.labels[2][own[2]].tolist() == [UNLABELLED]  # the unknown token of the empty text


def test_predictions_of_tokens_come_back_in_the_order_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.models.predict.BATCH_LIMITS", (2, 100))
    texts = batches([7, 8], [9])
    predicted = predict(Echo(), texts)
    assert predicted.counts is not None
    assert predicted.tokens is not None
    assert predicted.counts.tolist() == [3, 1, 5, 1, 6]
    labels = texts.read_labels()
    assert labels is not None
    assert labels.tolist() == [0, 1, 2, UNLABELLED, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    known = labels >= 0
    assert predicted.tokens.argmax(1)[known].tolist() == labels[known].tolist()
    assert dev_score(predicted, texts, "token") == 1.0
    assert dev_score(predicted, texts, "sentence") == pytest.approx(0.6)
    assert dev_score(predicted, texts, "mean") == pytest.approx(0.8)


def test_stopping_on_tokens_needs_labels_of_tokens() -> None:
    predicted = predict(Echo(), batches([], []))
    with pytest.raises(ParameterError, match=r"train\.stop_on needs token labels, and the data have none"):
        dev_score(predicted, batches([], [], labelled=False), "token")
