"""Loss of a batch whose backward pass sums the gradients of all processes, by torch's DistributedDataParallel."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from epigram.training.distributed import parallel
from epigram.training.objectives.base import Batch, Objective

BUCKET_MB = 4  # measured: docs/log.md


class DataParallelLoss:
    """Loss of `model` for an `objective`; each process computes the loss of its own texts.

    DistributedDataParallel knows the parameters of a model as they are when it wraps the model. Therefore it wraps the
    model again when a layer is dropped.
    """

    def __init__(self, model: Any, objective: Objective) -> None:
        self.loss = _Loss(model, objective)
        self.wrapped: DistributedDataParallel | None = None
        self.dropped = 0  # layers of the wrapped model

    def __call__(self, batch: Batch) -> Tensor:
        """Return the loss of the texts of `batch`, times the number of processes, whose mean is taken: a scalar."""
        if parallel.processes() == 1:
            return self.loss(batch)  # type: ignore[no-any-return]
        if self.wrapped is None or self.dropped != len(self.loss.model.dropped):
            self.wrapped = None  # removes the hooks of the parameters
            self.wrapped = DistributedDataParallel(
                self.loss,
                bucket_cap_mb=BUCKET_MB,
                forward_sync_buffers=False,  # all processes get the buffers of rank 0 before each evaluation
                find_unused_parameters=True,  # a batch may use some parameters only
                gradient_as_bucket_view=True,
            )
            self.dropped = len(self.loss.model.dropped)
        return self.wrapped(batch) * parallel.processes()  # type: ignore[no-any-return]


class _Loss(nn.Module):
    """Loss of a batch as the output of a module."""

    def __init__(self, model: Any, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss, a scalar."""
        return self.objective.loss(self.model, batch)
