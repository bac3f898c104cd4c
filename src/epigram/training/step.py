"""One training step, the same for every model and task."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from epigram.core.errors import TryAgainError, is_out_of_memory


def optimizer_step(
    model: nn.Module, losses: Iterable[Tensor], optimizer: torch.optim.Optimizer, clip: float | None
) -> Tensor:
    """Take a step of `optimizer` on the sum of `losses`, one per micro-batch, and return the sum.

    The sum stays on the device, so that nothing waits for it. The graph of a micro-batch is freed before the next one
    is built. `clip` is the maximum gradient norm. Raises TryAgainError if the update of the weights is out of memory:
    the step cannot be repeated, because some weights may have been updated, and smaller batches would not help either,
    as their memory is free by then.
    """
    optimizer.zero_grad(set_to_none=True)
    total: Tensor | None = None
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    try:
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TryAgainError("out of memory in the update of the weights; free memory and rerun") from None
    return total.float()
