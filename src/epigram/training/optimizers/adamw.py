"""AdamW (Loshchilov & Hutter, 2019)."""

from __future__ import annotations

import torch

from epigram.nn.torch_adapter import optimizer_without_compiler
from epigram.training import optimizers
from epigram.training.config import TrainingConfig


@optimizers.register("adamw")
def adamw(groups: optimizers.ParameterGroups, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return fused AdamW; the weight decay is separate from the gradient."""
    rate, betas = config.learning_rate, (0.9, config.beta2)
    return optimizer_without_compiler(torch.optim.AdamW)(groups, lr=rate, betas=betas, eps=config.epsilon, fused=True)
