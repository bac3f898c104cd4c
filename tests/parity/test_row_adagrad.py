"""A whole training of fast_text on bags against a NumPy reading in float64, which reads one text at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.linear.bags import as_bags
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.classification import Classification
from tests.parity.reference import row_adagrad as reference

VOCABULARY, BUCKETS, EPOCHS, BATCH, RATE = 12, 9, 4, 4, 0.1
IDS = [[5, 6, 7], [8, 9], [5, 9, 6, 7], [6], [7, 7, 7, 7, 7], [2, 3, 8], [10, 5], [11]]
LABELS = [0, 1, 2, 0, 1, 2, 0, 1]
CONFIG = TrainingConfig(
    optimizer="row_adagrad",
    epochs=EPOCHS,
    batch_size=BATCH,
    learning_rate=RATE,
    schedule="linear",
    warmup=0.25,
    clip=None,
    precision="fp32",
)


class LastWeights(Classification):
    """Objective that notes the rows of each batch and keeps the weights of the last step."""

    keeps_last = True

    def loss(self, model: Any, batch: Any) -> Any:
        """Note the rows of the batch."""
        vars(self).setdefault("seen", []).append(batch.rows.tolist())
        return super().loss(model, batch)


def mixed(value: int) -> int:
    """SplitMix64's mixing steps on 64-bit integers, with arithmetic shifts (Steele et al., 2014)."""

    def wrapped(number: int) -> int:
        return (number + 2**63) % 2**64 - 2**63

    value = wrapped(value * 0x9E3779B97F4A7C15)
    value = wrapped((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9)
    value = wrapped((value ^ (value >> 27)) * 0x94D049BB133111EB)
    return value ^ (value >> 31)


def features(ids: list[int]) -> list[int]:
    """Return the rows of words and of hashed 2- and 3-grams, words first."""
    rows = list(ids)
    for n in (2, 3):
        for start in range(len(ids) - n + 1):
            key = 0
            for token in ids[start : start + n]:
                key = key * (VOCABULARY + 1) + token + 1
            rows.append(VOCABULARY + mixed(key) % BUCKETS)
    return rows


def test_the_weights_after_eight_steps() -> None:
    torch.manual_seed(0)
    data = DataSpec(vocabulary=VOCABULARY, classes=3, max_length=8, labels=("a", "b", "c"))
    recipe = RECIPES["fast_text"].changed(encoder={"width": 5, "buckets": BUCKETS}, head={"dropout": 0.0})
    model: Any = recipe.build(data)
    encoder, out = model.encoder, model.head.out
    parts = encoder.embedding.token.weight, encoder.ngrams.weight, out.weight, out.bias
    tokens, ngrams, weight, bias = (part.detach().double().numpy().copy() for part in parts)
    texts = TextBatches(
        Ragged.from_lists(IDS, np.int32),
        prefix=[],
        suffix=[],
        max_length=8,
        pad_id=0,
        unk_id=1,
        labels=np.array(LABELS),
    )
    with as_bags(model, texts, texts, CONFIG) as (train, dev):
        objective = LastWeights(train, dev, CONFIG)
        Trainer(model, objective, seed=0).run()
    steps = EPOCHS * len(IDS) // BATCH
    rates = [RATE * ((step + 1) / 2 if step < 2 else (steps - step) / (steps - 2)) for step in range(steps)]
    batches = [[(features(IDS[row]), LABELS[row]) for row in rows] for rows in vars(objective)["seen"]]
    initial = reference.Weights(np.concatenate([tokens, ngrams]), weight, bias)
    wanted = reference.trained(initial, batches, rates, CONFIG.epsilon)
    found = torch.cat([encoder.embedding.token.weight, encoder.ngrams.weight]).detach()
    np.testing.assert_allclose(found, wanted.table, atol=1e-5)
    np.testing.assert_allclose(out.weight.detach(), wanted.weight, atol=1e-5)
    np.testing.assert_allclose(out.bias.detach(), wanted.bias, atol=1e-5)
    assert np.abs(wanted.table - initial.table).max() > RATE
