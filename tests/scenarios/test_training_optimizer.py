"""Optimizers, weight decay and clipping, compared with steps computed by hand or in NumPy."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.loop.optimization import build_optimizer
from epigram.training.loop.step import optimizer_step
from tests.support.scripted import Dev, prepared

GRADIENTS = [1.0, -0.5, 2.0, 0.25]


class Two(nn.Module):
    """Model with a matrix and a vector of one number each, both 1."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.vector = nn.Parameter(torch.ones(1, 1)), nn.Parameter(torch.ones(1))


def moved(gradients: list[float], rate: float = 0.1, **settings: Any) -> Two:
    """Return the two weights after one step for each of the `gradients`."""
    model = Two()
    used = build_optimizer(model, TrainingConfig(learning_rate=rate, **settings))
    for gradient in gradients:
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, gradient)
        used.step()
    return model


def adam(gradients: list[float], beta2: float, epsilon: float) -> float:
    """Kingma and Ba 2015, Algorithm 1, from weight 1 with β₁ = 0.9 and learning rate 0.1."""
    weight, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, beta2 * v + (1 - beta2) * g * g
        weight -= 0.1 * (m / (1 - 0.9**t)) / (sqrt(v / (1 - beta2**t)) + epsilon)
    return weight


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize(("beta2", "epsilon"), [(0.999, 1e-8), (0.6, 0.3)])
def test_adam_steps(kind: str, beta2: float, epsilon: float) -> None:
    model = moved(GRADIENTS, optimizer=kind, beta2=beta2, epsilon=epsilon, weight_decay=0.0)
    assert model.vector.item() == pytest.approx(adam(GRADIENTS, beta2, epsilon), abs=1e-6)


def test_adadelta_steps() -> None:
    """Zeiler 2012, Algorithm 1, with ρ = 0.95, ε = 1e-8 and learning rate 100."""
    weight, squares, steps = 1.0, 0.0, 0.0
    for g in GRADIENTS:
        squares = 0.95 * squares + 0.05 * g * g
        step = sqrt(steps + 1e-8) / sqrt(squares + 1e-8) * g
        steps = 0.95 * steps + 0.05 * step * step
        weight -= 100 * step
    model = moved(GRADIENTS, 100, optimizer="adadelta", weight_decay=0.0)
    assert model.vector.item() == pytest.approx(weight, abs=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_row_adagrad_steps(sparse: bool) -> None:
    """Duchi et al. 2011, with the mean square of a row's gradient: (3, 4) has 12.5, then (1, 7) has 25, in sum 37.5.

    The second row has no gradient in the second step, and keeps its weights. ε is 0.5.
    """
    table = nn.Embedding(3, 2, sparse=sparse)
    nn.init.ones_(table.weight)
    used = build_optimizer(table, TrainingConfig(optimizer="row_adagrad", learning_rate=0.1, epsilon=0.5))
    for rows, gradient in (([0, 1, 1], [[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]]), ([0], [[1.0, 7.0]])):
        used.zero_grad()
        (table(torch.tensor(rows)) * torch.tensor(gradient)).sum().backward()
        used.step()
    first, second = 0.1 / (sqrt(12.5) + 0.5), 0.1 / (sqrt(37.5) + 0.5)
    half = 1 - 0.1 / (1.0 + 0.5)  # (1, 1) has the mean square 1
    wanted = [[1 - 3 * first - second, 1 - 4 * first - 7 * second], [half, half], [1.0, 1.0]]
    np.testing.assert_allclose(table.weight.detach().numpy(), wanted, atol=1e-6)


def test_row_adagrad_takes_each_element_of_a_vector_as_a_row() -> None:
    vector = nn.Linear(1, 2)
    nn.init.zeros_(vector.bias)
    used = build_optimizer(vector, TrainingConfig(optimizer="row_adagrad", learning_rate=0.1, epsilon=1e-8))
    for gradient in ([2.0, -3.0], [2.0, 4.0]):
        vector.bias.grad = torch.tensor(gradient)
        used.step()
    wanted = [-0.1 - 0.1 * 2 / sqrt(8), 0.1 - 0.1 * 4 / 5]
    np.testing.assert_allclose(vector.bias.detach().numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "matrix"),
    [
        ("adamw", 0.95**2),  # w ← w (1 - 0.1 · 0.5), twice: the gradient itself is 0
        ("adam", 0.8),  # the decay is added to the gradient, and Adam makes steps of the rate: 1 - 0.1 - 0.1
    ],
)
def test_weight_decay_shrinks_matrices_and_leaves_vectors(kind: str, matrix: float) -> None:
    model = moved([0.0, 0.0], optimizer=kind, weight_decay=0.5)
    assert model.vector.item() == 1.0
    assert model.matrix.item() == pytest.approx(matrix, abs=1e-2 if kind == "adam" else 1e-6)


def test_no_bias_and_no_norm_of_a_transformer_decays() -> None:
    recipe = RECIPES["transformer_f"].changed(encoder={"width": 8, "hidden": 12, "depth": 2}, head={}, train={})
    model: Any = recipe.build(DataSpec(vocabulary=9, classes=3, max_length=8, pos_weight=torch.ones(9)))
    used = build_optimizer(model, TrainingConfig(learning_rate=1e-3, weight_decay=0.01))
    decay = {id(p): group["weight_decay"] for group in used.param_groups for p in group["params"]}
    found = {name: decay.get(id(p)) for name, p in model.named_parameters()}
    kept = {name for name in found if name.endswith("bias") or ".norm" in name}
    fixed = {name for name in found if name.endswith("temperature")}  # not trained by default
    assert {found[name] for name in kept} == {0.0}
    assert {found[name] for name in fixed} == {None}
    assert {found[name] for name in found.keys() - kept - fixed} == {0.01}
    assert len(kept) > 12 and len(fixed) == 2


# Clipping


@pytest.mark.parametrize(
    ("clip", "wanted"),
    [
        (1.0, [0.4, 0.2]),  # (3, 4) has norm 5: it becomes (0.6, 0.8); the weights are 1 minus that
        (10.0, [-2.0, -3.0]),
        (None, [-2.0, -3.0]),
    ],
)
def test_the_gradient_is_scaled_to_the_clip_norm_and_no_further(clip: float | None, wanted: list[float]) -> None:
    weight = nn.Linear(2, 1, bias=False)
    nn.init.ones_(weight.weight)
    loss = weight(torch.tensor([3.0, 4.0])).sum()
    returned = optimizer_step(weight, [loss], torch.optim.SGD(weight.parameters(), lr=1.0), clip)
    np.testing.assert_allclose(weight.weight.detach().numpy(), [wanted], rtol=1e-5)
    assert returned.item() == 7.0


def test_a_step_sums_the_gradients_and_the_losses_of_its_pieces_and_none_of_the_step_before() -> None:
    weight = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(weight.weight)
    used = torch.optim.SGD(weight.parameters(), lr=1.0)
    for loss, after in ((2.0, -3.0), (-7.0, -6.0)):  # (w + 1) + (2w + 1) at 0 and at -3; the gradient is 3
        pieces = (weight(torch.tensor([x])).sum() + 1.0 for x in (1.0, 2.0))
        assert optimizer_step(weight, pieces, used, None).item() == loss
        assert weight.weight.item() == after


@pytest.mark.parametrize(("clip", "gradient"), [(0.25, 0.25), (None, 1.0), (7.0, 1.0)])
def test_the_trainer_clips_by_its_setting(clip: float | None, gradient: float) -> None:
    run = prepared([Dev(5)], clip=clip)
    run.trainer.run()
    assert run.model.rise.grad is not None
    assert abs(run.model.rise.grad.item()) == pytest.approx(gradient, rel=1e-4)
