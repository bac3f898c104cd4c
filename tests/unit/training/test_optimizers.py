"""Tests of learning rate schedules."""

from __future__ import annotations

import pytest
import torch

from epigram.training.config import TrainingConfig
from epigram.training.optimizers import build_optimizer, build_schedule


def rates(config: TrainingConfig, steps: int) -> list[float]:
    model = torch.nn.Linear(2, 2)
    chosen = build_optimizer(model, config, config.learning_rate)
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


def test_adam_takes_its_moments_from_the_settings() -> None:
    chosen = build_optimizer(torch.nn.Linear(2, 2), TrainingConfig(optimizer="adam", beta2=0.98, epsilon=1e-9), 1e-3)
    assert (chosen.defaults["betas"], chosen.defaults["eps"]) == ((0.9, 0.98), 1e-9)
