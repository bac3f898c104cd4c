"""Adagrad (Duchi et al., 2011) with one learning rate per row of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from epigram.nn.torch_adapter import optimizer_without_compiler
from epigram.training import optimizers
from epigram.training.config import TrainingConfig


@optimizers.register("row_adagrad")
def row_adagrad(groups: optimizers.ParameterGroups, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return row-wise Adagrad, for dense and for sparse gradients; it has no `beta2` and no weight decay."""
    return optimizer_without_compiler(RowAdagrad)(groups, lr=config.learning_rate, eps=config.epsilon)


class RowAdagrad(torch.optim.Optimizer):
    """Optimizer that divides the gradient of a row by the root of the sum of the mean squares of its gradients.

    A row that few texts use therefore takes larger steps, and a row without a gradient keeps its weights. Each element
    of a vector such as a bias is a row of its own.
    """

    def __init__(self, groups: optimizers.ParameterGroups, *, lr: float, eps: float) -> None:
        super().__init__(groups, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient; there is no `closure`."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["eps"])

    def _update(self, weight: Tensor, gradient: Tensor, rate: float, epsilon: float) -> None:
        state = self.state[weight]
        if "squares" not in state:
            state["squares"] = weight.new_zeros(len(weight) if weight.dim() > 1 else weight.numel())
        update = _update_some if gradient.is_sparse else _update_all
        update(weight, gradient, state["squares"], rate, epsilon)


def _update_all(weight: Tensor, gradient: Tensor, squares: Tensor, rate: float, epsilon: float) -> None:
    """Update `weight` and the `squares` (R,) of its rows in place."""
    gradient = gradient.reshape(len(squares), -1)
    squares += gradient.square().mean(1)
    weight -= (gradient * (rate / (squares.sqrt() + epsilon)).unsqueeze(1)).view_as(weight)


def _update_some(weight: Tensor, gradient: Tensor, squares: Tensor, rate: float, epsilon: float) -> None:
    """Update the rows of `weight` (R, D) that have a gradient, and their `squares`, in place, on the CPU.

    NumPy reads and writes rows in half of PyTorch's time.
    """
    gradient = gradient.coalesce()
    rows, values = gradient.indices()[0].numpy(), gradient.values().numpy()  # (U,), (U, D)
    table, sums = weight.numpy(), squares.numpy()
    own = sums[rows] + np.einsum("ud,ud->u", values, values) / np.float32(values.shape[1])
    sums[rows] = own
    new = values * (np.float32(-rate) / (np.sqrt(own) + np.float32(epsilon)))[:, None]
    new += table.take(rows, 0)
    whole = np.dtype((np.void, table.itemsize * table.shape[1]))  # a row as one element, which is copied faster
    table.view(whole)[rows] = new.view(whole)
