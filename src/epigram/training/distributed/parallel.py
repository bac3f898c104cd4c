"""Data parallel training: several processes train one model, each on its share of every batch's texts.

The stage `train` starts them if `train.processes` is greater than 1. On several machines, the user does:

    torchrun --nnodes 2 --nproc-per-node 8 … -m epigram.stages.train …

The launcher's variables (RANK, WORLD_SIZE, …) identify the processes. Every process holds all texts and uses the same
order of batches. Gradients are summed, with each share weighted by its number of texts. A step then equals a step of
one process on the whole batch if the loss is a mean or a sum over texts. The same is true for a batch that one process
splits into halves after out of memory.

The result is not exact for dropout, which every share draws for itself; for batch normalization in training, which uses
the statistics of the share; and for the token part of `tagger` and the language model of `char_bilstm` (with `lm_loss:
mean`), which are means over the tokens of a share. Without a launcher, the functions of this module change nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from epigram.core.errors import ParameterError, TryAgainError
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import Precision
from epigram.models.predict import Predicted, join_shares, predict_share

LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PEER_ENDED = "another process of the training has ended; rerun"
GLOO = "gloo"  # name of the backend in its error messages

T = TypeVar("T")


class PeerEndedError(TryAgainError):
    """Error of a process that cannot continue because another one has ended, whose own error says why."""


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that the launcher started; on GPUs, each process uses the GPU of its local rank.

    Raises ParameterError if variables of the launcher are missing, or if there are more processes than GPUs. Within the
    block, PeerEndedError replaces the error of an operation with a process that has ended.
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
    try:
        distributed.init_process_group(_select_device())
        yield
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or GLOO in str(error).lower():
            raise PeerEndedError(PEER_ENDED) from error
        raise
    # not in `finally`: connections last until an error is reported, so that no other process fails first
    distributed.destroy_process_group()


def _select_device() -> str:
    """Select the device of this process; return the communication backends."""
    if not torch.cuda.is_available():
        return "gloo"
    own, available = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if own >= available:
        raise ParameterError(
            f"torchrun --nproc-per-node is greater than {available}, the number of GPUs; each process needs its own"
        )
    torch.cuda.set_device(own)
    return "cpu:gloo,cuda:nccl"  # decisions about the next step are exchanged without waiting for the GPU


def processes() -> int:
    """Return the number of processes that train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process; rank 0 writes and reports."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def maximum(values: Sequence[int]) -> list[int]:
    """Return the maximum over all processes of each of the `values`."""
    if processes() == 1:
        return list(values)
    found = torch.tensor(values)
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return found.tolist()


def gather(tensor: Tensor) -> Tensor:
    """Return the tensors of all processes, on the CPU and of the same shape, as one: (processes, …)."""
    if processes() == 1:
        return tensor.unsqueeze(0)
    found = [torch.empty_like(tensor) for _ in range(processes())]
    distributed.all_gather(found, tensor)
    return torch.stack(found)


def from_first(compute: Callable[[], T]) -> T:
    """Return, in every process, what `compute` returns in the process with rank 0, a value of JSON."""
    if processes() == 1:
        return compute()
    text = json.dumps(compute()).encode() if rank() == 0 else b""
    [size] = maximum([len(text)])
    found = torch.tensor(list(text), dtype=torch.uint8) if rank() == 0 else torch.empty(size, dtype=torch.uint8)
    distributed.broadcast(found, 0)
    result: T = json.loads(bytes(found.tolist()))
    return result


@contextmanager
def first_before_others() -> Iterator[None]:
    """Run the block in the process with rank 0, then in all other processes."""
    if rank():
        wait_for_all()
    yield
    if not rank():
        wait_for_all()


def wait_for_all() -> None:
    """Wait until all processes have come here."""
    maximum([0])


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


def mean_over_processes(loss: Tensor) -> Tensor:
    """Return the mean of the losses of all processes, each of them with the weight of `split_batch`."""
    if processes() == 1:
        return loss
    total = loss.detach().clone()
    distributed.all_reduce(total)
    return total / processes()


def predict_synchronized(model: nn.Module, texts: TextBatches, precision: Precision) -> Predicted:
    """Return predictions for `texts`, of which each process makes its share of the batches.

    They are bitwise identical in every process, so that all decide alike, and identical to a single process's.
    """
    _broadcast_weights(model)  # running statistics of batch normalization differ between processes
    shares = predict_share(model, texts, precision=precision, first=rank(), step=processes())
    if processes() > 1:
        gathered = [shares] * processes()
        distributed.all_gather_object(gathered, shares)
        shares = [share for each in gathered for share in each]
    return join_shares(model, texts, shares)


def _broadcast_weights(model: nn.Module) -> None:
    """Copy the weights and buffers of rank 0 to every process."""
    if processes() > 1:
        for tensor in [*model.parameters(), *model.buffers()]:
            _broadcast(tensor.detach())


def _broadcast(tensor: Tensor) -> None:
    """Replace the values of `tensor` by rank 0's, byte by byte."""
    flat = tensor.contiguous().flatten()
    distributed.broadcast(flat.view(torch.uint8), 0)
    tensor.copy_(flat.view_as(tensor))
