"""One training step, the same for every model and task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from epigram.core.errors import TryAgainError, is_out_of_memory
from epigram.training.distributed import parallel
from epigram.training.loop.progress import report_progress
from epigram.training.objectives.base import Batch

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


def train_on(trainer: Trainer, batch: Batch) -> Tensor:
    """Take a step on `batch` and return its loss; if out of memory, take this and all later batches in two halves.

    Raises TryAgainError if the halves are out of memory as well, or if other processes have not run out of memory.
    """
    try:
        loss = optimizer_step(trainer.model, _losses(trainer, batch), trainer.optimizer, trainer.config.clip)
        return parallel.mean_over_processes(loss)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    _split_batches(trainer, batch)  # not in the handler, whose error keeps the memory in use
    return train_on(trainer, batch)


def _losses(trainer: Trainer, batch: Batch) -> Iterator[Tensor]:
    for rows, weight in parallel.split_batch(batch.rows, trainer.model, trainer.position.pieces):
        yield trainer.loss(Batch(batch.texts, rows)) * weight


def _split_batches(trainer: Trainer, batch: Batch) -> None:
    (texts, rows), processes = batch, parallel.processes()
    if trainer.position.pieces > 1 or len(rows) == 1 or processes > 1:
        how = "in halved batches" if processes == 1 else f"shared by {processes} processes"
        raise TryAgainError(
            f"out of memory at step {trainer.position.step + 1}, on {len(rows)} texts of up to "
            f"{texts.lengths[rows].max()} tokens {how}; free memory and rerun, or lower "
            f"{trainer.objective.size_settings}"
        )
    trainer.position.pieces = 2
    if trainer.checkpoints:
        trainer.checkpoints.halved = True
    report_progress(trainer, "out of memory; each batch is split into two halves from now on")


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
