"""Sum of the gradients of several processes, in buckets that are sent while the backward pass still runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, distributed, nn

from epigram.training import parallel

BUCKET_BYTES = 4 << 20  # measured: docs/development/log.md


class Bucket:
    """Gradients of some parameters as one flat tensor, whose parts become the gradients of the parameters."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, first = parameters, parameters[0]
        self.flat = torch.empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        pieces = torch.split(self.flat, [p.numel() for p in parameters])
        self.views = [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
        self.missing = 0  # gradients that this backward pass has not computed yet
        self.work: Any = None

    @torch.no_grad()
    def send(self) -> None:
        """Begin to sum the bucket over all processes; a parameter without a gradient counts as zero."""
        for p, view in zip(self.parameters, self.views, strict=True):
            view.zero_()
            if p.grad is not None:
                view.add_(p.grad)  # which may be sparse
                p.grad = view  # frees the memory of the other one
        self.work = distributed.all_reduce(self.flat, async_op=True)


class GradientBuckets:
    """Buckets of the gradients of `model`, the last parameters first, as the backward pass computes them.

    All processes send the buckets in the same order, each as soon as its gradients are complete and those before it
    are sent. The buckets follow a change of the model, such as a dropped layer.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.buckets: list[Bucket] = []
        self._parameters: list[nn.Parameter] = []
        self._hooks: list[Any] = []
        self._bucket_of: dict[nn.Parameter, Bucket] = {}
        self._sent = 0
        self._last = False  # whether the backward pass is the last one of the step

    @contextmanager
    def summed(self) -> Iterator[None]:
        """Sum the gradients that backward passes in the block compute, also after an error, as the others wait for it.

        A parameter has a gradient afterwards if it has one in any process.
        """
        self._prepare()
        try:
            yield
        finally:
            self._last = False
            self._finish()

    def expect_last(self) -> None:
        """Send buckets during the backward pass that comes next, the last one of the step."""
        self._last = True

    def _prepare(self) -> None:
        """Make new buckets if the parameters have changed; no bucket is sent yet."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if len(parameters) != len(self._parameters) or any(
            p is not old for p, old in zip(parameters, self._parameters, strict=True)
        ):
            self._rebuild(parameters)
        self._sent = 0
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)

    def _rebuild(self, parameters: list[nn.Parameter]) -> None:
        for hook in self._hooks:
            hook.remove()
        self._parameters = parameters
        self.buckets = [Bucket(group) for group in grouped(parameters[::-1])]
        self._bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self._hooks = [
            p.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]
            for p in parameters
        ]

    def _note(self, parameter: Tensor) -> None:
        """Note that a gradient is complete, and send the buckets that are; called during a backward pass."""
        if not self._last:
            return
        self._bucket_of[parameter].missing -= 1  # type: ignore[index]
        for bucket in takewhile(lambda bucket: bucket.missing == 0, self.buckets[self._sent :]):
            self._send(bucket)

    def _send(self, bucket: Bucket) -> None:
        self._sent += 1
        bucket.send()

    def _finish(self) -> None:
        """Send the rest, and wait for all buckets."""
        for bucket in self.buckets[self._sent :]:
            self._send(bucket)
        # after all buckets, as another process may have sent its own earlier
        present = parallel.maximum([p.grad is not None for p in self._parameters])
        for bucket in self.buckets:
            bucket.work.wait()
        has_gradient = dict(zip(self._parameters, present, strict=True))
        for bucket in self.buckets:
            for p, view in zip(bucket.parameters, bucket.views, strict=True):
                p.grad = view if has_gradient[p] else None


def grouped(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield the parameters in groups of one data type, each of BUCKET_BYTES or a little more, except the last ones."""
    group: list[nn.Parameter] = []
    for p in parameters:
        if group and (p.dtype != group[0].dtype or sum(each.nbytes for each in group) >= BUCKET_BYTES):
            yield group
            group = []
        group.append(p)
    if group:
        yield group
