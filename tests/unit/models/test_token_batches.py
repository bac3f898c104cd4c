"""Batches: token labels and characters from flat arrays and back, and the size and precision of a prediction."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.models.batches import UNLABELLED, TextBatches
from epigram.models.predict import batch_limits, predict
from epigram.nn.layers.types import Prediction, Tokens
from epigram.training.dev_score import DevScore

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


@pytest.mark.parametrize(("rows", "shortest", "full"), [([0, 1, 3], 1, False), ([1, 3], 1, True), ([4, 2], 5, False)])
@pytest.mark.parametrize("prefix", [[], [7, 8]])
def test_the_host_knows_the_lengths_of_a_batch(prefix: list[int], rows: list[int], shortest: int, full: bool) -> None:
    tokens = batches(prefix, [], labelled=False).gather(np.array(rows))
    assert tokens.lengths is not None
    assert tokens.lengths.tolist() == tokens.valid.sum(1).tolist()
    assert (tokens.shortest, tokens.full) == (shortest + len(prefix), full)
    unknown = Tokens(tokens.ids, tokens.valid)
    assert unknown.shortest is None and unknown.full is None


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
    assert DevScore("token").of(predicted, texts) == 1.0
    assert DevScore("sentence").of(predicted, texts) == pytest.approx(0.6)
    assert DevScore("mean").of(predicted, texts) == pytest.approx(0.8)


def test_stopping_on_tokens_needs_labels_of_tokens() -> None:
    predicted = predict(Echo(), batches([], []))
    with pytest.raises(ParameterError, match=r"train\.stop_on needs token labels, and the data have none"):
        DevScore("token").of(predicted, batches([], [], labelled=False))


def test_tokens_stay_in_the_memory_that_they_are_given_in(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(10, 10 + sum(LENGTHS), dtype=np.int32))
    mapped = np.load(tmp_path / "ids.npy", mmap_mode="r")
    with warnings.catch_warnings(action="error"):
        texts = TextBatches(
            Ragged.from_lengths(mapped, np.array(LENGTHS)),
            prefix=[7],
            suffix=[8, 9],
            max_length=9,
            pad_id=0,
            unk_id=1,
            token_labels=mapped,
            word_weight=np.ones(len(mapped), np.float32),
        )
    assert np.shares_memory(texts.ids.numpy(), mapped) and np.shares_memory(texts.token_labels.numpy(), mapped)
    found = texts.gather(np.array([0, 1]))
    assert found.ids.tolist() == [[7, 10, 11, 12, 8, 9], [7, 1, 8, 9, 0, 0]], "an empty text is one unknown token"
    assert found.ids.dtype == found.labels.dtype == torch.int64
    assert found.labels.tolist() == [[-1, 10, 11, 12, -1, -1], [-1] * 6]
    assert found.word_weight.tolist() == [[-1, 1, 1, 1, -1, -1], [-1] * 6]
    assert texts.read_labels().tolist() == [10, 11, 12, -1, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]


def test_texts_may_all_be_empty() -> None:
    none = np.zeros(0, np.int32)
    texts = TextBatches(
        Ragged.from_lengths(none, np.zeros(2, np.int64)),
        prefix=[],
        suffix=[7],
        max_length=9,
        pad_id=0,
        unk_id=1,
        token_labels=none,
        characters=Ragged.from_lengths(none, none),
    )
    found = texts.gather(np.arange(2))
    assert found.ids.tolist() == [[1, 7], [1, 7]]
    assert found.characters.tolist() == [[[0], [0]], [[0], [0]]]
    assert found.labels.tolist() == [[-1, -1], [-1, -1]] and texts.read_labels().tolist() == [-1, -1]


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
