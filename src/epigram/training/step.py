"""One training step, the same for every model and task."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from epigram.core.errors import TryAgainError, is_out_of_memory
from epigram.training import parallel
from epigram.training.gradient_buckets import GradientBuckets


def optimizer_step(
    model: nn.Module,
    losses: Iterable[Tensor],
    optimizer: torch.optim.Optimizer,
    clip: float | None,
    buckets: GradientBuckets | None = None,
) -> Tensor:
    """Take a step of `optimizer` on the sum of `losses`, one per micro-batch, and return the sum.

    The sum stays on the device, so that nothing waits for it. The graph of a micro-batch is freed before the next one
    is built. `clip` is the maximum gradient norm. With `buckets`, losses and gradients are summed over all processes.
    If one of these is out of memory, all raise an error. It is TryAgainError if the step cannot be repeated, because
    some weights may have been updated: smaller batches would not help either, as their memory is free by then.
    """
    optimizer.zero_grad(set_to_none=True)
    if buckets is None:
        total = _backward(losses)
    else:
        with parallel.share_out_of_memory(), buckets.summed():
            total = _backward(losses)
    try:
        if buckets is not None:
            total = parallel.sum_over_processes(total)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TryAgainError("out of memory in the update of the weights; free memory and rerun") from None
    return total.float()


def _backward(losses: Iterable[Tensor]) -> Tensor:
    """Add the gradients of all `losses`, and return their sum."""
    total: Tensor | None = None
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    return total
