"""The system that knows nothing but the labels' frequencies."""

from __future__ import annotations

import numpy as np
import torch

from pithy.layers.types import Context, Tokens
from pithy.systems.chance import Chance, ChanceConfig

TEXTS = 20_000
FREQUENCY = torch.tensor([0.6, 0.3, 0.1, 0.0])


def model_of(seed: int = 0, *, multi: bool = False) -> Chance:
    model = ChanceConfig().build(Context(vocabulary=5_000, classes=4, max_length=8, multi=multi))
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
