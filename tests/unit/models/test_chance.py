"""Tests of the random baseline, which knows only the label frequencies."""

from __future__ import annotations

import numpy as np
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.random_baseline import RandomBaseline, RandomBaselineConfig
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.training.fitters.random_baseline import fit

TEXTS = 20_000
FREQUENCY = torch.tensor([0.6, 0.3, 0.1, 0.0])


def model_of(seed: int = 0, *, multi: bool = False) -> RandomBaseline:
    model = RandomBaselineConfig().build(DataSpec(vocabulary=5_000, classes=4, max_length=8, multi=multi))
    model.install(FREQUENCY, seed)
    return model


def texts() -> Tokens:
    ids = torch.randint(5_000, (TEXTS, 4), generator=torch.Generator().manual_seed(0))
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool))


def test_answers_come_as_often_as_the_labels() -> None:
    shares = model_of()(texts()).logits.argmax(1).bincount(minlength=4) / TEXTS
    np.testing.assert_allclose(shares, FREQUENCY, atol=0.02)
    assert shares[3] == 0


def test_each_of_several_labels_comes_as_often_as_it_does() -> None:
    said = (model_of(multi=True)(texts()).logits > 0).double()
    np.testing.assert_allclose(said.mean(0), FREQUENCY, atol=0.02)
    correlation = np.corrcoef(said[:, :3].T.numpy())[np.triu_indices(3, 1)]
    np.testing.assert_allclose(correlation, 0.0, atol=0.03)


def test_the_same_text_gets_the_same_answer_and_the_order_of_words_counts() -> None:
    tokens = Tokens(torch.tensor([[7, 8, 9], [7, 8, 9], [9, 8, 7]]), torch.ones(3, 3, dtype=torch.bool))
    first, again, turned = model_of()(tokens).logits
    assert torch.equal(first, again) and not torch.equal(first, turned)


def test_another_seed_draws_by_itself() -> None:
    first, second = (model_of(seed)(texts()).logits.argmax(1) for seed in (0, 1))
    agree = float((first == second).double().mean())
    assert abs(agree - float((FREQUENCY**2).sum())) < 0.02


def test_token_labels_are_all_as_likely_and_a_hash_of_seed_text_and_place() -> None:
    context = DataSpec(vocabulary=5_000, classes=4, max_length=8, token_labels=("O", "A", "B"))
    first, second = (RandomBaselineConfig().build(context) for _ in range(2))
    for model, seed in ((first, 0), (second, 1)):
        model.install(FREQUENCY, seed)
    tokens = first(texts()).tokens.argmax(-1)
    np.testing.assert_allclose(tokens.flatten().bincount(minlength=3) / tokens.numel(), 1 / 3, atol=0.01)
    same_place = tokens[:, 0] == tokens[:, 1]
    assert abs(float(same_place.double().mean()) - 1 / 3) < 0.02
    assert abs(float((tokens == second(texts()).tokens.argmax(-1)).double().mean()) - 1 / 3) < 0.01
    short = Tokens(texts().ids[:1], texts().valid[:1])
    padded = Tokens(torch.nn.functional.pad(short.ids, (0, 3)), torch.nn.functional.pad(short.valid, (0, 3)))
    assert torch.equal(first(short).tokens, first(padded).tokens[:, :4])


def test_without_token_labels_no_token_is_labelled() -> None:
    assert model_of()(texts()).tokens is None


def test_of_several_labels_each_is_counted_as_a_share_of_the_texts() -> None:
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    frame = {"prefix": [], "suffix": [], "max_length": 4, "pad_id": 0, "unk_id": 1}
    train = TextBatches(Ragged(np.arange(2, 6), np.arange(5)), labels=labels, **frame)  # type: ignore[arg-type]
    model = RandomBaselineConfig().build(DataSpec(vocabulary=9, classes=3, max_length=4, multi=True))
    fit(model, train, train, seed=0)
    assert model.frequency.tolist() == [0.75, 0.5, 0.25]
