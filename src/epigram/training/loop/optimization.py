"""Optimizer and learning-rate schedule of a training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from epigram.training import optimizers
from epigram.training.config import TrainingConfig


def parameter_groups(model: nn.Module, config: TrainingConfig) -> optimizers.ParameterGroups:
    """Return groups of parameters: weights, with weight decay, and biases and norms, without, by learning rate."""
    factors, groups = layer_factors(model, config.layer_decay), dict[tuple[float, bool], list[nn.Parameter]]()
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups.setdefault((factors.get(parameter, 1.0), parameter.dim() > 1), []).append(parameter)
    return [
        {
            "params": groups[key],
            "lr": config.learning_rate * key[0],
            "weight_decay": config.weight_decay if key[1] else 0.0,
        }
        for key in sorted(groups, reverse=True)
    ]


def layer_factors(model: nn.Module, decay: float) -> dict[nn.Parameter, float]:
    """Return the factor of the learning rate of each parameter of an encoder with layers (Howard and Ruder, 2018).

    It is 1 in the last layer, `decay` in the layer below, and so on down to the embeddings, which are below the first.
    Layers that share their weights, as in ALBERT, count as one.
    """
    encoder = getattr(model, "encoder", None)
    if decay == 1.0 or encoder is None:
        return {}
    blocks = list(dict.fromkeys(encoder.blocks))  # each once
    found = dict.fromkeys(encoder.parameters(), decay ** len(blocks))
    for below, block in enumerate(reversed(blocks)):
        found.update(dict.fromkeys(block.parameters(), decay**below))
    return found


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimizer that `config` names, with its learning rate."""
    return optimizers.KINDS[config.optimizer](parameter_groups(model, config), config)


def build_schedule(optimizer: torch.optim.Optimizer, config: TrainingConfig, steps: int) -> LambdaLR:
    """Return a schedule of warm-up over a share of `steps`, then constant, linear to zero, or inverse square root.

    `plateau` is constant until `scale_learning_rate` is called.
    """
    warm = _warm_up_steps(config, steps)
    after: dict[str, Callable[[int], float]] = {
        "constant": lambda step: 1.0,
        "plateau": lambda step: 1.0,
        "linear": lambda step: max(0.0, (steps - step) / max(1, steps - warm)),
        "inverse_sqrt": lambda step: float((warm / step) ** 0.5),
    }
    return LambdaLR(optimizer, lambda step: (step + 1) / warm if step < warm else after[config.schedule](step))


def _warm_up_steps(config: TrainingConfig, steps: int) -> int:
    """Return the number of warm-up steps; the whole training may have fewer steps."""
    if config.warmup == 1.0:
        return config.warmup_steps or steps
    return max(1, min(round(config.warmup * steps), config.warmup_steps or steps))


def scale_learning_rate(schedule: LambdaLR, factor: float) -> None:
    """Multiply the learning rate of every later step by `factor`, the next one included."""
    schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
    for group in schedule.optimizer.param_groups:
        group["lr"] *= factor
