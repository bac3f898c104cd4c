"""Adam (Kingma & Ba, 2015)."""

from __future__ import annotations

import torch

from epigram.nn.torch_adapter import optimizer_without_compiler
from epigram.training import optimizers
from epigram.training.config import TrainingConfig


@optimizers.register("adam")
def adam(groups: optimizers.ParameterGroups, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return fused Adam; the weight decay is added to the gradient."""
    rate, betas = config.learning_rate, (0.9, config.beta2)
    return optimizer_without_compiler(torch.optim.Adam)(groups, lr=rate, betas=betas, eps=config.epsilon, fused=True)
