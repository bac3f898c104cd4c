"""Training steps as captured CUDA graphs.

A step of a small model is some hundred tiny kernels, which a graph starts all at once. A graph repeats what was
captured, at the same addresses and with the same shapes. Therefore the padded texts are on the device, a batch is an
index into them, its length is rounded up to a multiple of EIGHT, and each frequent shape has its own graph. On the CPU,
and for rare shapes, the same step runs without a graph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import matmul_precision
from epigram.nn.layers.types import Tokens
from epigram.training.config import TrainingConfig
from epigram.training.loop.step import optimizer_step

LENGTH_MULTIPLE = 8
WARMUP_STEPS = 3  # steps of a shape before its capture: they select kernels and create the optimizer's state

Shape = tuple[int, int]  # B, L


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    index: Tensor  # (B,), read by the graph
    loss: Tensor  # written by the graph


class GraphSteps:
    """Training steps of `optimizer`: a call trains on the texts `rows` and returns the loss without waiting for it.

    Create this object after the learning-rate schedule, which the caller advances. The model must not read a value from
    the device while it trains (no `bool(tensor)`), and must keep its tensors: after a layer is dropped or a buffer is
    replaced, create new `Steps`. Raises ValueError for texts with characters.
    """

    def __init__(
        self, model: Any, texts: TextBatches, optimizer: torch.optim.Optimizer, config: TrainingConfig
    ) -> None:
        if texts.characters is not None:
            raise ValueError("CUDA graph steps do not support views with `characters: true`")
        every = np.arange(len(texts))
        self.model, self.optimizer, self.config, self.device = model, optimizer, config, texts.device
        self.tokens, self.labels = texts.gather(every), texts.targets(every)  # (N, L)
        self.lengths = texts.lengths
        self.seen: Counter[Shape] = Counter()
        self.graphs: dict[Shape, _Captured] = {}
        if self.device.type == "cuda":
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self.pool = torch.cuda.graph_pool_handle()
            self._make_capturable()

    def __call__(self, rows: Rows) -> Tensor:
        """Train on `rows` (B,) and return the loss."""
        longest = int(self.lengths[rows].max())
        width = min(-(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE, self.tokens.ids.shape[1])
        index = torch.from_numpy(rows)
        if self.device.type != "cuda":
            return self._step(index, width)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self._on_gpu(index.pin_memory(), (len(rows), width))
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _on_gpu(self, index: Tensor, shape: Shape) -> Tensor:
        self.seen[shape] += 1
        if self.seen[shape] <= WARMUP_STEPS:
            return self._step(index.to(self.device, non_blocking=True), shape[1])
        if shape not in self.graphs:
            self.graphs[shape] = self._capture(shape)
        captured = self.graphs[shape]
        captured.index.copy_(index, non_blocking=True)
        captured.graph.replay()
        return captured.loss

    def _capture(self, shape: Shape) -> _Captured:
        """Return the graph of a step on a batch of `shape`; capturing records the step and does not run it."""
        graph, index = torch.cuda.CUDAGraph(), torch.zeros(shape[0], dtype=torch.int64, device=self.device)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            loss = self._step(index, shape[1])
        return _Captured(graph, index, loss)

    def _step(self, index: Tensor, width: int) -> Tensor:
        self.model.train()
        with matmul_precision(self.config.precision, self.device):
            loss: Tensor = self.model(self._tokens(index, width), self.labels[index]).loss
        return optimizer_step(self.model, [loss], self.optimizer, self.config.clip)

    def _tokens(self, index: Tensor, width: int) -> Tokens:
        """Return the texts `index` (B,), all with `width` tokens."""
        every = self.tokens
        labels, weight = (
            None if part is None else part[:, :width][index] for part in (every.labels, every.word_weight)
        )
        return Tokens(every.ids[:, :width][index], every.valid[:, :width][index], labels=labels, word_weight=weight)

    def _make_capturable(self) -> None:
        """Let the optimizer read its learning rate from the device, where a captured step sees each new value."""
        for group in self.optimizer.param_groups:
            group["capturable"] = True
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
