"""Training of a fast_text encoder on bags: a step reads and updates only the vectors that its texts use.

The token and n-gram vectors of a text are its bag, which is hashed once for the whole training. The vectors get sparse
gradients. With an optimizer that leaves a row without a gradient as it is, training on bags equals training on tokens
up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.models.batches import Rows, TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.fast_text import FastTextEncoder
from epigram.nn.heads.linear import LinearHead
from epigram.nn.layers.attention.pos_weighting import token_weights
from epigram.nn.layers.ngrams import ngram_buckets
from epigram.nn.layers.types import Encoded, Tokens
from epigram.nn.torch_adapter import replace_forward, restore_forward
from epigram.training.config import TrainingConfig
from epigram.training.distributed import parallel

SPARSE = ("row_adagrad",)  # optimizers that take sparse gradients and leave a row without a gradient as it is
READ = 1024, 262_144  # maximum texts and tokens that are hashed at once
PREDICTED = 4_096  # texts of a batch for inference


def learns_from_bags(model: nn.Module, config: TrainingConfig) -> bool:
    """Return whether training on bags is possible here, and the same as training on tokens.

    The head must read the mean of a text's states. Gradients of several processes are summed as dense tensors, a GPU is
    fast with these, and PyTorch clips no sparse ones.
    """
    if not isinstance(model, NeuralClassifier) or not isinstance(model.encoder, FastTextEncoder):
        return False
    mean = isinstance(model.head, LinearHead) and model.head.pool == "mean"
    on_cpu = model.temperature.device.type == "cpu"
    can_be_sparse = config.optimizer in SPARSE and config.clip is None and parallel.processes() == 1
    return mean and on_cpu and can_be_sparse


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


@dataclass(frozen=True)
class Bags:
    """Vectors of N texts: row n of `columns` names text n's vectors; `weights` (T,) are by part of speech, if any.

    Column c < V is token c, and column V + b is bucket b of the n-grams, whose weights are 1.
    """

    columns: Ragged[np.int32]
    weights: NDArray[np.float32] | None

    def __getitem__(self, rows: Rows) -> Bags:
        """Return the bags of the texts `rows` (B,)."""
        places = self.columns.places(rows)
        columns = places.with_values(self.columns.values[places.values])
        return Bags(columns, None if self.weights is None else self.weights[places.values])

    def shares(self) -> NDArray[np.float32]:
        """Return the share of each vector (T,) in the mean state of its text: its weight / F, for F vectors."""
        shares = self.columns.spread((1 / self.columns.lengths).astype(np.float32))
        return shares if self.weights is None else shares * self.weights


@dataclass(frozen=True)
class BagTokens(Tokens):
    """Batch of B texts with their `bags`, each text as one token: its number, (B, 1)."""

    bags: Any = None


class BagTexts(TextBatches):
    """Texts whose batches are bags; lengths and labels are as in the given texts."""

    bags: Bags
    places: Rows  # place of each text among the bags

    @classmethod
    def of(cls, encoder: FastTextEncoder, texts: TextBatches) -> BagTexts:
        """Return `texts` as bags for `encoder`."""
        new = cls.__new__(cls)
        vars(new).update(vars(texts))
        new.bags, new.places = read_bags(encoder, texts)
        return new

    def gather(self, rows: Rows) -> BagTokens:
        """Return the texts `rows` (B,)."""
        ids = torch.from_numpy(rows)[:, None]
        return BagTokens(ids, torch.ones_like(ids, dtype=torch.bool), bags=self.bags[self.places[rows]])

    def epoch(self, generator: np.random.Generator, batch_size: int, max_tokens: int) -> list[Rows]:
        """Return all rows in a new order as batches, of any lengths: bags are not padded."""
        return list(self._cut(generator.permutation(len(self)), batch_size, max_tokens))

    def in_order(self, batch_size: int, max_tokens: int) -> Iterator[Rows]:
        """Return all rows once as batches for inference; the limits are for padded tokens, which bags do not have."""
        yield from np.array_split(np.arange(len(self)), -(-len(self) // PREDICTED))


def read_bags(encoder: FastTextEncoder, texts: TextBatches) -> tuple[Bags, Rows]:
    """Return the bags of `texts`, in another order, and the place of each text in that order, (N,)."""
    order, columns, weights = [], [], []
    for rows in texts.in_order(*READ):
        own, factors = _read(encoder, texts.gather(rows))
        order.append(rows)
        columns.append(own)
        weights.append(factors)
    known = [each for each in weights if each is not None]
    bags = Bags(Ragged.concatenate(columns), np.concatenate(known) if known else None)
    return bags, np.argsort(np.concatenate(order))


def _read(encoder: FastTextEncoder, tokens: Tokens) -> tuple[Ragged[np.int32], NDArray[np.float32] | None]:
    """Return the columns of each text of a batch (B, L), and their weights unless all are 1."""
    config, size = encoder.config, encoder.vocabulary
    grams = ngram_buckets(tokens, size, config.orders, config.buckets)  # (B, L, N)
    found = torch.cat([tokens.valid.unsqueeze(2), grams < config.buckets], 2).numpy()
    columns = torch.cat([tokens.ids.unsqueeze(2), grams + size], 2).int().numpy()
    bags = Ragged.from_lengths(columns[found], found.sum((1, 2)))
    weights = token_weights(encoder.embedding.scaling.pos_weight, tokens)
    if weights is None:
        return bags, None
    factors = np.ones(columns.shape, np.float32)
    factors[:, :, 0] = weights.numpy()
    return bags, factors[found]


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
        """Add to the gradients of the tables, given the states' `gradient` (B, D)."""
        dense = torch.from_numpy(shares.T @ gradient.contiguous().numpy())  # (U, D)
        parts = dense.tensor_split([len(rows[0])])
        for table, used, part in zip(self.tables, rows, parts, strict=True):
            index = torch.from_numpy(used)[None]
            new = torch.sparse_coo_tensor(index, part, table.shape, is_coalesced=True, check_invariants=False)
            table.grad = new if table.grad is None else table.grad + new
