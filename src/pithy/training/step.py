"""One step of training, the same for every model and task."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from pithy.training import parallel


def descend(model: nn.Module, losses: Iterable[Tensor], optimizer: torch.optim.Optimizer, clip: float | None) -> Tensor:
    """A step of `optimizer` down the sum of `losses`, each of a piece of the batch; that sum, not waited for.

    A piece's graph is gone before the next is built. `clip` is the highest norm of the gradient.
    """
    optimizer.zero_grad(set_to_none=True)
    total: Tensor | None = None
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    total = parallel.total(model, total)
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return total.float()
