"""Optimizer and learning-rate schedule of a training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from epigram.training import optimizers
from epigram.training.config import TrainingConfig


def parameter_groups(model: nn.Module, decay: float) -> optimizers.ParameterGroups:
    """Return two parameter groups: weights, with weight decay, and biases and norms, without."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]


def build_optimizer(model: nn.Module, config: TrainingConfig, rate: float) -> torch.optim.Optimizer:
    """Return the optimizer that `config` names, with the learning rate `rate`."""
    groups = parameter_groups(model, config.weight_decay)
    return optimizers.KINDS[config.optimizer](groups, config, rate)


def build_schedule(optimizer: torch.optim.Optimizer, config: TrainingConfig, steps: int) -> LambdaLR:
    """Return a schedule of warm-up over a share of `steps`, then constant, linear to zero, or inverse square root.

    `plateau` is constant until `scale_learning_rate` is called.
    """
    warm = max(1, min(round(config.warmup * steps), config.warmup_steps or steps))
    after: dict[str, Callable[[int], float]] = {
        "constant": lambda step: 1.0,
        "plateau": lambda step: 1.0,
        "linear": lambda step: max(0.0, (steps - step) / max(1, steps - warm)),
        "inverse_sqrt": lambda step: float((warm / step) ** 0.5),
    }
    return LambdaLR(optimizer, lambda step: (step + 1) / warm if step < warm else after[config.schedule](step))


def scale_learning_rate(schedule: LambdaLR, factor: float) -> None:
    """Multiply the learning rate of every later step by `factor`, the next one included."""
    schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
    for group in schedule.optimizer.param_groups:
        group["lr"] *= factor
