"""Tests of learning rate schedules, and of optimizers by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.types import DataSpec
from epigram.recipes.cnle import PRESETS
from epigram.training import optimizers
from epigram.training.config import TrainingConfig
from epigram.training.loop.optimization import build_optimizer, build_schedule, layer_factors
from tests.support.families import FAMILIES, built, checkpoint


def rates(config: TrainingConfig, steps: int) -> list[float]:
    model = torch.nn.Linear(2, 2)
    chosen = build_optimizer(model, config)
    plan = build_schedule(chosen, config, steps)
    seen = []
    for _ in range(steps):
        seen.append(chosen.param_groups[0]["lr"])
        model(torch.ones(1, 2)).sum().backward()
        chosen.step()
        plan.step()
    return seen


@pytest.mark.parametrize(("steps", "peak"), [(4000, 800), (100, 20)])
def test_warm_up_is_a_share_of_the_steps_up_to_a_number_of_them(steps: int, peak: int) -> None:
    config = TrainingConfig(schedule="inverse_sqrt", warmup=0.2, warmup_steps=800, learning_rate=1.0)
    seen = rates(config, steps)
    assert seen.index(max(seen)) in {peak - 1, peak} and max(seen) == 1.0
    assert seen[0] == pytest.approx(1 / peak)
    assert seen[-1] == pytest.approx((peak / (steps - 1)) ** 0.5)


@pytest.mark.parametrize("steps", [160, 4000])
def test_the_warm_up_of_the_preset_of_cnle_does_not_depend_on_the_number_of_steps(steps: int) -> None:
    seen = rates(TrainingConfig(**PRESETS["cnle"].train, learning_rate=1.0), steps)
    assert seen[:160] == pytest.approx([step / 800 for step in range(1, 161)])
    assert max(seen) == pytest.approx(min(1.0, steps / 800))


def test_adam_takes_its_moments_from_the_settings() -> None:
    chosen = build_optimizer(torch.nn.Linear(2, 2), TrainingConfig(optimizer="adam", beta2=0.98, epsilon=1e-9))
    assert (chosen.defaults["betas"], chosen.defaults["eps"]) == ((0.9, 0.98), 1e-9)


def test_each_layer_has_the_rate_of_the_one_above_it_times_the_decay() -> None:
    context = DataSpec(vocabulary=9, classes=2, max_length=8)
    encoder = TransformerConfig(width=4, heads=1, hidden=4, depth=3).build(context)
    model = NeuralClassifier(encoder, LinearConfig().build(context, encoder))
    chosen = build_optimizer(model, TrainingConfig(learning_rate=0.8, layer_decay=0.5, weight_decay=0.1))
    found = {id(p): (group["lr"], group["weight_decay"]) for group in chosen.param_groups for p in group["params"]}
    assert {id(p) for p in model.parameters()} == set(found)
    wanted = {"head.out": 0.8, "encoder.blocks.2": 0.8, "encoder.blocks.1": 0.4, "encoder.blocks.0": 0.2}
    for name, parameter in model.named_parameters():
        rate = next((value for key, value in wanted.items() if name.startswith(key)), 0.1)
        assert found[id(parameter)] == (pytest.approx(rate), 0.1 if parameter.dim() > 1 else 0.0), name


def test_layers_with_shared_weights_have_the_full_rate(tmp_path: Path) -> None:
    model, encoder = built(checkpoint("albert", tmp_path, {**FAMILIES["albert"], "num_hidden_layers": 4}))
    shared = set(encoder.blocks[0].parameters())
    factors = layer_factors(model, 0.5)
    assert encoder.depth == 4 and set(factors) == set(encoder.parameters())
    assert {factors[each] for each in shared} == {1.0}
    assert {factors[each] for each in set(factors) - shared} == {0.5}


@pytest.fixture
def plain_descent() -> Iterator[None]:
    """Register an optimizer that subtracts the gradient times the rate, as a file of the user's own would."""

    @optimizers.register("plain_descent")
    def build(groups: optimizers.ParameterGroups, config: TrainingConfig) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=config.learning_rate)

    yield
    del optimizers.KINDS._parts["plain_descent"]


@pytest.mark.usefixtures("plain_descent")
def test_a_registered_optimizer_is_an_allowed_value_and_takes_the_steps() -> None:
    config = validate_as(
        TrainingConfig, {"optimizer": "plain_descent", "learning_rate": 0.25, "weight_decay": 0.0}, "train"
    )
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    chosen = build_optimizer(model, config)
    model.weight.grad = torch.full((1, 1), 2.0)
    chosen.step()
    assert model.weight.item() == 0.5  # 1 - 0.25 · 2


@pytest.mark.parametrize("value", ["sgd", "adagrad", ""])
def test_an_unknown_optimizer_is_refused_with_the_registered_ones(value: Any) -> None:
    with pytest.raises(ParameterError) as raised:
        validate_as(TrainingConfig, {"optimizer": value}, "train")
    assert (
        str(raised.value)
        == f"params.yaml: train.optimizer is {value!r}; expected 'adadelta', 'adam', 'adamw' or 'row_adagrad'"
    )
    assert list(optimizers.KINDS) == ["adadelta", "adam", "adamw", "row_adagrad"]
