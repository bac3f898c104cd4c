"""Adadelta (Zeiler, 2012)."""

from __future__ import annotations

import torch

from epigram.nn.torch_adapter import optimizer_without_compiler
from epigram.training import optimizers
from epigram.training.config import TrainingConfig


@optimizers.register("adadelta")
def adadelta(groups: optimizers.ParameterGroups, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adadelta with ρ = 0.95, as in MHAL; it has no `beta2`."""
    return optimizer_without_compiler(torch.optim.Adadelta)(
        groups, lr=config.learning_rate, rho=0.95, eps=config.epsilon
    )
