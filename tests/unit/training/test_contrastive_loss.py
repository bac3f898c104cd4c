"""Parity of the loss of pairs with an independent reading in NumPy, and what it is where a kind of pair is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from epigram.training.objectives.contrastive import pair_loss


def reading(states: NDArray[np.float64], groups: list[int]) -> float:
    """Return the loss, pair by pair: the mean over the kinds of pairs of the mean squared error of the cosine."""
    errors: dict[bool, list[float]] = {}
    for a in range(len(groups)):
        for b in range(a):
            u, v = states[a], states[b]
            cosine = float(u @ v / np.sqrt((u @ u) * (v @ v)))
            same = groups[a] == groups[b]
            errors.setdefault(same, []).append((cosine - (1.0 if same else 0.0)) ** 2)
    return float(np.mean([np.mean(kind) for kind in errors.values()])) if errors else 0.0


GROUPS = [[0, 0, 1, 1, 2], [0, 0, 0, 1], [0, 0, 0], [0, 1, 2, 3], [0]]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_value_and_gradient(groups: list[int]) -> None:
    given = np.random.default_rng(0).normal(size=(len(groups), 6)) * 3
    states = torch.tensor(given, requires_grad=True)
    loss = pair_loss(states, np.array(groups))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(reading(given, groups), abs=1e-6)
    assert states.grad is not None
    step = 1e-6
    for row, column in np.ndindex(given.shape):
        moved = [given.copy(), given.copy()]
        moved[0][row, column] += step
        moved[1][row, column] -= step
        slope = (reading(moved[0], groups) - reading(moved[1], groups)) / (2 * step)
        assert float(states.grad[row, column]) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(
    ("states", "groups", "loss"),
    [
        ([[1, 0], [2, 0]], [0, 0], 0.0),
        ([[1, 0], [0, 3]], [0, 1], 0.0),  # the cosine of different labels is to be 0, not -1
        ([[1, 0], [-3, 0]], [0, 1], 1.0),
        ([[1, 0], [-3, 0]], [0, 0], 4.0),
        ([[1, 0], [5, 0], [0, 1]], [0, 0, 0], 2 / 3),
        ([[1, 0], [5, 0], [1, 0]], [0, 0, 1], 0.5),
    ],
)
def test_known_values(states: Any, groups: list[int], loss: float) -> None:
    assert float(pair_loss(torch.tensor(states).float(), np.array(groups))) == pytest.approx(loss)
