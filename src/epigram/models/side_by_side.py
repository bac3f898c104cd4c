"""Work on batches in threads side by side, each on one processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Sequence[Batch]], Result], batches: Sequence[Batch], device: torch.device
) -> list[Result]:
    """Return the results of `work` on shares of the batches, one share for each thread of PyTorch on the CPU.

    Batches of short texts are too small for several threads: two side by side, each on one processor, end sooner than
    one after the other on two. A single batch has all processors.
    """
    threads = torch.get_num_threads()
    count = min(threads, len(batches)) if device.type == "cpu" else 1
    if count <= 1:
        return [work(batches)]
    try:
        with ThreadPoolExecutor(count, "batches", torch.set_num_threads, (1,)) as pool:
            shares = [pool.submit(copy_context().run, work, batches[first::count]) for first in range(count)]
        return [share.result() for share in shares]
    finally:
        torch.set_num_threads(threads)  # MKL has one number for all threads
