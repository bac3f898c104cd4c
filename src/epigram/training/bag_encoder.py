"""Training of a fast_text encoder on bags, in which a step reads and updates only the vectors that its texts use.

The vectors get sparse gradients. With an optimizer that leaves a row without a gradient as it is, the result equals
that of the training on tokens up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier
from epigram.nn.encoders.fast_text import FastTextEncoder
from epigram.nn.heads.linear import LinearHead
from epigram.nn.layers.types import Encoded
from epigram.nn.torch_adapter import replace_forward, restore_forward
from epigram.training import parallel
from epigram.training.bags import Bags, BagTexts, BagTokens
from epigram.training.config import TrainingConfig

SPARSE = ("row_adagrad",)  # optimizers that take sparse gradients and leave a row without a gradient as it is


def learns_from_bags(model: nn.Module, config: TrainingConfig) -> bool:
    """Return whether training on bags is possible here, and the same as training on tokens.

    The head must read the mean of a text's states. Gradients of several processes are summed as dense tensors, and a
    GPU is fast with these.
    """
    if not isinstance(model, Classifier) or not isinstance(model.encoder, FastTextEncoder):
        return False
    mean = isinstance(model.head, LinearHead) and model.head.pool == "mean"
    on_cpu = model.temperature.device.type == "cpu"
    return mean and on_cpu and config.optimizer in SPARSE and parallel.processes() == 1


@contextmanager
def as_bags(
    model: Any, train: TextBatches, dev: TextBatches | None, config: TrainingConfig
) -> Iterator[tuple[TextBatches, TextBatches | None]]:
    """Yield the texts as bags, which the model reads until the end of the block; as they are if it cannot."""
    if not learns_from_bags(model, config):
        yield train, dev
        return
    encoder = model.encoder
    replace_forward(encoder, BagReader(encoder))
    try:
        yield BagTexts.of(encoder, train), None if dev is None else BagTexts.of(encoder, dev)
    finally:
        restore_forward(encoder)


class BagReader:
    """Forward function of `encoder` for bags: the mean state of a text as the state of its only token.

    In training, the backward pass adds sparse gradients to the two tables.
    """

    def __init__(self, encoder: FastTextEncoder) -> None:
        self.tables = encoder.embedding.token.weight, encoder.ngrams.weight
        size = encoder.vocabulary + encoder.config.buckets
        self.is_used, self.place = np.zeros(size, np.bool_), np.zeros(size, np.int32)

    def __call__(self, tokens: BagTokens) -> Encoded:
        """Return the states (B, 1, D)."""
        rows, shares = self._compact(tokens.bags)
        states = torch.from_numpy(shares @ self._vectors(rows))
        if torch.is_grad_enabled():
            hook = partial(self._backward, rows, shares)
            states.requires_grad_().register_hook(hook)  # type: ignore[no-untyped-call]
        return Encoded((states.unsqueeze(1),) * 2, tokens)

    def _vectors(self, rows: tuple[Any, Any]) -> Any:
        """Return these rows of both tables, (U, D)."""
        tokens, ngrams = (table.detach().numpy() for table in self.tables)
        cut, found = len(rows[0]), np.empty((sum(map(len, rows)), tokens.shape[1]), np.float32)
        tokens.take(rows[0], 0, out=found[:cut], mode="clip")  # the other mode copies once more
        ngrams.take(rows[1], 0, out=found[cut:], mode="clip")
        return found

    def _compact(self, bags: Bags) -> tuple[tuple[Any, Any], Any]:
        """Return the rows of both tables that are used, ascending, and the shares of these in each text (B, U)."""
        from scipy.sparse import csr_array

        columns = bags.columns.values
        self.is_used[columns] = True
        used = np.flatnonzero(self.is_used)
        self.is_used[used] = False
        self.place[used] = np.arange(len(used), dtype=np.int32)
        tokens = len(self.tables[0])
        cut = int(np.searchsorted(used, tokens))
        shape = len(bags.columns), len(used)
        return (used[:cut], used[cut:] - tokens), csr_array(
            (bags.shares(), self.place[columns], bags.columns.offsets), shape=shape
        )

    def _backward(self, rows: tuple[Any, Any], shares: Any, gradient: Tensor) -> None:
        """Add to the gradients of the tables, given that of the states (B, D)."""
        dense = torch.from_numpy(shares.T @ gradient.contiguous().numpy())  # (U, D)
        parts = dense.tensor_split([len(rows[0])])
        for table, used, part in zip(self.tables, rows, parts, strict=True):
            index = torch.from_numpy(used)[None]
            new = torch.sparse_coo_tensor(index, part, table.shape, is_coalesced=True, check_invariants=False)
            table.grad = new if table.grad is None else table.grad + new
