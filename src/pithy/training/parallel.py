"""Data parallel: several processes train one model, each on its share of every batch's texts.

    torchrun --nproc-per-node 2 -m pithy.stages.train …

The launcher's variables (RANK, WORLD_SIZE, …) say who is there. Every process holds all texts and sees the same order
of batches. Gradients are summed, each share weighed by its texts, so that a step is that of one process on the whole
batch wherever the loss is a mean over texts, or their sum; so are the halves of a batch. Not exact: dropout, which
every share draws for itself; batch normalization while training, whose statistics are the share's; the token part of
`tagger` and the language model of `spelled_bilstm`, means over the tokens of a share. Without a launcher every function
here leaves all as it is.
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

from pithy.errors import ParameterError
from pithy.training.batches import Rows, TextBatches
from pithy.training.precision import Precision
from pithy.training.predict import Predicted, predict

VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def joined() -> Iterator[None]:
    """Work together with the processes that the launcher started; on GPUs each takes the one of its own number.

    Raises ParameterError for variables that no launcher has set, and for more processes than GPUs.
    """
    world = os.environ.get("WORLD_SIZE", "1")
    if world == "1":
        yield
        return
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise ParameterError(f"WORLD_SIZE was {world} without {', '.join(missing)}: start by torchrun, or unset it")
    distributed.init_process_group(_take_device())
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _take_device() -> str:
    """Settle on this process's device; the library that talks between such devices."""
    if not torch.cuda.is_available():
        return "gloo"
    own, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if own >= there:
        raise ParameterError(f"torchrun --nproc-per-node was more than the {there} GPU of this machine: one a process")
    torch.cuda.set_device(own)
    return "nccl"


def processes() -> int:
    """How many train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process; the one with 0 writes and reports."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def start(model: nn.Module, seed: int) -> None:
    """Give every process the first one's weights, and draws (dropout) of its own."""
    _align(model)
    if rank():
        torch.manual_seed(seed + rank())


def shares(rows: Rows, model: nn.Module, pieces: int = 1) -> Iterator[tuple[Rows, float]]:
    """This process's part of a batch in so many `pieces`, and what the loss of each is to be multiplied by.

    Texts are dealt out in turn, as they stand in order of length. A process that gets none takes one that counts for
    nothing, since all must take part in the sum.
    """
    own = rows[rank() :: processes()]
    summed = bool(getattr(model, "summed", False))  # the loss of a batch is the sum of its texts'
    if not len(own):
        yield rows[:1], 0.0
    for piece in np.array_split(own, min(pieces, len(own))) if len(own) else ():
        yield piece, 1.0 if summed else len(piece) / len(rows)


def total(model: nn.Module, loss: Tensor) -> Tensor:
    """Sum the gradients, in place, and the `loss` of all processes, which is returned."""
    if processes() == 1:
        return loss
    held = [p for p in model.parameters() if p.grad is not None]
    flat = torch.cat([p.grad.flatten() for p in held if p.grad is not None] + [loss.detach().reshape(1)])
    distributed.all_reduce(flat)
    for p, piece in zip(held, torch.split(flat[:-1], [p.numel() for p in held]), strict=True):
        p.grad = piece.view_as(p)
    return flat[-1]


def predicted(model: nn.Module, texts: TextBatches, precision: Precision) -> Predicted:
    """What the model says of `texts`, to the last bit the same in every process, so that all decide alike on it."""
    _align(model)  # running statistics of batch normalization are each process's own
    found = predict(model, texts, precision=precision)
    if processes() == 1:
        return found
    arrays: dict[str, Any] = {name: getattr(found, name) for name in ("logits", "parts", "tokens")}
    for array in arrays.values():
        if array is not None:
            _take_over(torch.from_numpy(array))
    return replace(found, **arrays)


def _align(model: nn.Module) -> None:
    """The first process's weights and buffers in every process."""
    if processes() > 1:
        for tensor in [*model.parameters(), *model.buffers()]:
            _take_over(tensor.detach())


def _take_over(tensor: Tensor) -> None:
    """The first process's values, byte by byte, in the place of `tensor`'s."""
    where = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flat = tensor.contiguous().flatten().to(where)
    distributed.broadcast(flat.view(torch.uint8), 0)
    tensor.copy_(flat.view_as(tensor))
