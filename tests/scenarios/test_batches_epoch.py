"""Content and order of batches, on texts whose lengths determine the expected result."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from tests.support.scripted import Dev, prepared, texts


def of_lengths(lengths: list[int]) -> TextBatches:
    """Return texts with these numbers of tokens."""
    ids = Ragged.from_lengths(np.full(sum(lengths), 5), np.array(lengths))
    labels = np.zeros(len(lengths), np.int64)
    return TextBatches(ids, prefix=[], suffix=[], max_length=300, pad_id=0, unk_id=1, labels=labels)


def lengths_of(batches: Any, texts: TextBatches) -> list[list[int]]:
    return [sorted(texts.lengths[rows].tolist()) for rows in batches]


LENGTHS = [2, 6, 5, 2, 3, 6, 2]


@pytest.mark.parametrize(
    ("batch_size", "max_tokens", "wanted"),
    [
        # longest texts first: two of 6 tokens are 12; 5 and 3 padded to 5 are 10; all three of 2 fit
        (4, 12, [[6, 6], [3, 5], [2, 2, 2]]),
        (4, 1000, [[3, 5, 6, 6], [2, 2, 2]]),
        (2, 1000, [[6, 6], [3, 5], [2, 2], [2]]),
        (4, 11, [[6], [6], [3, 5], [2, 2, 2]]),
        (4, 3, [[6], [6], [5], [3], [2], [2], [2]]),  # a text longer than the limit is a batch of its own
    ],
)
def test_a_batch_has_at_most_batch_size_texts_and_max_tokens_tokens(
    batch_size: int, max_tokens: int, wanted: list[list[int]]
) -> None:
    made = of_lengths(LENGTHS)
    assert lengths_of(made.in_order(batch_size, max_tokens), made) == wanted
    epoch = made.epoch(np.random.default_rng(0), batch_size, max_tokens)
    assert sorted(lengths_of(epoch, made)) == sorted(wanted)
    assert sorted(np.concatenate(epoch).tolist()) == list(range(len(LENGTHS)))


@pytest.mark.parametrize(("max_tokens", "steps"), [(12, 3), (1000, 2), (3, 7)])
def test_training_keeps_to_max_tokens(max_tokens: int, steps: int) -> None:
    run = prepared([Dev(5)], batch_size=4, max_tokens=max_tokens)
    trainer = Trainer(run.model, label_objective(of_lengths(LENGTHS), texts(10), run.trainer.config), seed=0)
    trainer.run()
    assert run.model.steps == trainer.per_epoch == steps


def apart(lengths: list[int]) -> Any:
    """Return the difference in length between the two texts of each batch, and the longer length."""
    made = of_lengths(lengths)
    pairs = lengths_of(made.epoch(np.random.default_rng(3), 2, 10_000), made)
    return np.array([high - low for low, high in pairs]), np.array([high for _, high in pairs])


def test_texts_of_a_batch_are_of_similar_length_within_a_pool_of_64_batches() -> None:
    gap, longest = apart([*range(1, 129)])  # one pool: sorted by length, all neighbors differ by 1; unsorted, by 43
    assert (gap <= 1 + 0.3 * longest).all()  # the lengths are multiplied by 0.85 to 1.15 before sorting
    assert 3 < gap.mean() < 12
    gap, _ = apart([*range(1, 257)])  # two pools of random texts: neighbors within the pool, not among all texts
    assert (gap > 1).sum() > 30 and gap.max() < 60


def test_with_more_texts_the_lengths_of_a_batch_are_closer() -> None:
    few, _ = apart([n for n in range(200, 216) for _ in range(8)])
    many, _ = apart([n for n in range(200, 216) for _ in range(8 * 256)])
    assert few.mean() > 4  # 128 texts: the noise, 30 of 200 tokens, hides the lengths; in random order, 5.3
    assert many.mean() < 0.8  # 256 times as many: 0.1 of 200 tokens, and a pool has 8 texts of each length


@pytest.mark.parametrize("seed", range(5))
def test_max_tokens_counts_the_longest_text_of_a_batch_wherever_it_is(seed: int) -> None:
    made = of_lengths([100, 101, 102, 103, 104, 105, 106, 107])  # the noise changes their order
    found = made.epoch(np.random.default_rng(seed), 4, 420)
    assert all(len(rows) * made.lengths[rows].max() <= 420 for rows in found)
    assert sorted(np.concatenate(found).tolist()) == list(range(8))


def test_batches_come_in_a_random_order_and_not_by_length() -> None:
    made, order = of_lengths([*range(1, 129)]), np.random.default_rng(0)
    longest = np.array([max(batch) for batch in lengths_of(made.epoch(order, 2, 10_000), made)])
    ranks = np.corrcoef(longest, np.arange(len(longest)))[0, 1]
    assert abs(ranks) < 0.4  # ±1 if sorted in either direction; 0 ± 0.13 by chance


def test_every_epoch_puts_other_texts_of_one_length_together() -> None:
    made, order = of_lengths([4] * 64), np.random.default_rng(0)
    pairs = Counter(frozenset(rows.tolist()) for _ in range(10) for rows in made.epoch(order, 2, 1000))
    assert sum(pairs.values()) == 320
    assert len(pairs) > 280  # of 2,016 possible pairs; 32 if each epoch repeats the previous one


def test_each_text_comes_first_equally_often() -> None:
    made, order = of_lengths([3] * 8), np.random.default_rng(0)
    first = Counter(int(made.epoch(order, 1, 1000)[0][0]) for _ in range(1600))
    assert set(first) == set(range(8))
    assert min(first.values()) > 140 and max(first.values()) < 260  # 200 expected, σ = 13


def orders(seed: int) -> list[list[int]]:
    """Return the texts of each step of two epochs of training."""
    run = prepared([Dev(5)] * 2, batches=8, batch_size=2)
    objective: Any = run.trainer.objective
    trainer = Trainer(run.model, objective, seed=seed)
    seen: list[list[int]] = []
    gather = objective.train.gather
    objective.train.gather = lambda rows: (seen.append(rows.tolist()), gather(rows))[1]
    trainer.run()
    return seen


def test_the_seed_gives_the_order_of_training() -> None:
    first, again, other = orders(0), orders(0), orders(1)
    assert first == again != other
    assert first[:8] != first[8:], "the second epoch has an order of its own"
    assert all(sorted(chain(*half)) == list(range(16)) for half in (first[:8], first[8:], other[:8]))
