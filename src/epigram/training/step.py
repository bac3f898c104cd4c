"""One training step, the same for every model and task."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from epigram.training import parallel


def optimizer_step(
    model: nn.Module, losses: Iterable[Tensor], optimizer: torch.optim.Optimizer, clip: float | None
) -> Tensor:
    """Take a step of `optimizer` on the sum of `losses`, one per micro-batch, and return the sum.

    The sum stays on the device, so that nothing waits for it. The graph of a micro-batch is freed before the next one
    is built. `clip` is the maximum gradient norm.
    """
    optimizer.zero_grad(set_to_none=True)
    total: Tensor | None = None
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    total = parallel.sum_gradients(model, total)
    if clip is not None:
        clip_gradients(model, clip)
    optimizer.step()
    return total.float()


def clip_gradients(model: nn.Module, limit: float) -> None:
    """Scale all gradients of `model`, dense and sparse ones, so that their common norm is at most `limit`."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not any(grad.is_sparse for grad in grads):
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        return
    norm = torch.stack([(grad.coalesce().values() if grad.is_sparse else grad).norm() for grad in grads]).norm()
    for grad in grads:
        grad.mul_((limit / (norm + 1e-6)).clamp(max=1.0))  # as in clip_grad_norm_
