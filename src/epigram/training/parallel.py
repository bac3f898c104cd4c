"""Data parallel training: several processes train one model, each on its share of every batch's texts.

    torchrun --nproc-per-node 2 -m epigram.stages.train …

The launcher's variables (RANK, WORLD_SIZE, …) identify the processes. Every process holds all texts and uses the same
order of batches. Gradients are summed, with each share weighted by its number of texts. A step then equals a step of
one process on the whole batch if the loss is a mean or a sum over texts. The same is true for a batch that is split
into halves after out of memory.

The result is not exact for dropout, which every share draws for itself; for batch normalization in training, which uses
the statistics of the share; for `setfit`, which reads the pairs within a share; and for the token part of `tagger` and
the language model of `char_bilstm` (with `lm_loss: mean`), which are means over the tokens of a share. Without a
launcher, the functions of this module change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from epigram.core.errors import ParameterError
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import Precision
from epigram.models.predict import Predicted, predict

LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that the launcher started; on GPUs, each process uses the GPU of its local rank.

    Raises ParameterError if variables of the launcher are missing, or if there are more processes than GPUs.
    """
    world = os.environ.get("WORLD_SIZE", "1")
    if world == "1":
        yield
        return
    missing = [name for name in LAUNCHER_VARIABLES if name not in os.environ]
    if missing:
        raise ParameterError(
            f"WORLD_SIZE is {world}, but {', '.join(missing)} not set; start with torchrun, or unset WORLD_SIZE"
        )
    distributed.init_process_group(_select_device())
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _select_device() -> str:
    """Select the device of this process; return the communication backend for such devices."""
    if not torch.cuda.is_available():
        return "gloo"
    own, available = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if own >= available:
        raise ParameterError(
            f"torchrun --nproc-per-node is greater than {available}, the number of GPUs; each process needs its own"
        )
    torch.cuda.set_device(own)
    return "nccl"


def processes() -> int:
    """Return the number of processes that train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process; the one with rank 0 writes and reports."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def broadcast_and_seed(model: nn.Module, seed: int) -> None:
    """Copy the weights of rank 0 to every process, and give each one its own random numbers (dropout)."""
    _broadcast_weights(model)
    if rank():
        torch.manual_seed(seed + rank())


def split_batch(rows: Rows, model: nn.Module, pieces: int = 1) -> Iterator[tuple[Rows, float]]:
    """Yield this process's part of a batch in `pieces`, each with the weight of its loss.

    Texts are dealt out in turn, because they are sorted by length. A process without a text takes one with weight 0,
    because all processes must take part in the sum.
    """
    own = rows[rank() :: processes()]
    summed = bool(getattr(model, "summed", False))  # the loss of a batch is a sum over its texts
    if not len(own):
        yield rows[:1], 0.0
    for piece in np.array_split(own, min(pieces, len(own))) if len(own) else ():
        yield piece, 1.0 if summed else len(piece) / len(rows)


def sum_gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """Sum the gradients of all processes, in place; return the sum of their losses."""
    if processes() == 1:
        return loss
    trained = [p for p in model.parameters() if p.grad is not None]
    flat = torch.cat([p.grad.flatten() for p in trained if p.grad is not None] + [loss.detach().reshape(1)])
    distributed.all_reduce(flat)
    for p, piece in zip(trained, torch.split(flat[:-1], [p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
    return flat[-1]


def predict_synchronized(model: nn.Module, texts: TextBatches, precision: Precision) -> Predicted:
    """Return predictions for `texts` that are bitwise identical in every process, so that all decide alike."""
    _broadcast_weights(model)  # running statistics of batch normalization differ between processes
    result = predict(model, texts, precision=precision)
    if processes() == 1:
        return result
    arrays: dict[str, Any] = {name: getattr(result, name) for name in ("logits", "parts", "tokens")}
    for array in arrays.values():
        if array is not None:
            _broadcast(torch.from_numpy(array))
    return replace(result, **arrays)


def _broadcast_weights(model: nn.Module) -> None:
    """Copy the weights and buffers of rank 0 to every process."""
    if processes() > 1:
        for tensor in [*model.parameters(), *model.buffers()]:
            _broadcast(tensor.detach())


def _broadcast(tensor: Tensor) -> None:
    """Replace the values of `tensor` by those of rank 0, byte by byte."""
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flat = tensor.contiguous().flatten().to(device)
    distributed.broadcast(flat.view(torch.uint8), 0)
    tensor.copy_(flat.view_as(tensor))
