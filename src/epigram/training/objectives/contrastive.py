"""Contrastive objective: texts of one label get similar encodings, others different ones (Tunstall et al., 2022).

The loss is the squared error of the cosine of two encodings, which is to be 1 for a pair of one label and 0 for any
other (the cosine similarity loss of Reimers and Gurevych, 2019). All B (B - 1) / 2 pairs of a batch of B texts are
read; the paper encodes two texts for each pair (docs/development/log.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from epigram.models.batches import Rows, TextBatches, to_device
from epigram.models.precision import matmul_precision
from epigram.models.predict import gold_labels
from epigram.training.config import TrainingConfig, ceil_divide
from epigram.training.objectives.base import Batch
from epigram.training.objectives.classification import Classification

LEAST_COUPLES = 2  # minimum number of same-label pairs per batch: one of each of two labels


def label_groups(labels: NDArray[np.integer]) -> Rows:
    """Return the group (N,) of each text, from 0: the texts with equal labels (N,), or equal sets of labels (N, C)."""
    groups: Rows = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    return groups


def pair_batches(groups: Rows, size: int, order: np.random.Generator) -> list[Rows]:
    """Return the rows of all texts, with their `groups` (N,), in batches of at most `size` texts, but at least four.

    The texts of a group are drawn as couples, so that each has a text of its own group in its batch; the last one of an
    odd number is drawn with another one again, and the only text of a group is alone. The couples of a group are dealt
    out to all batches in turn, and shuffled there, so that each half of a batch has several groups. Couples of the
    rarer groups are repeated until each batch has texts of two groups, if `size` is at least six.
    """
    counts = np.bincount(groups)
    rank = order.permutation(len(counts))
    rank[counts.argmax()] = -1  # the most frequent group is first
    rows = order.permutation(len(groups))
    couples = _couples(rows[np.argsort(rank[groups[rows]], kind="stable")], groups)
    common, others = np.split(couples, [ceil_divide(int(counts.max()), 2)])
    limit = max(LEAST_COUPLES, size // 2)
    batches = ceil_divide(len(couples), limit)
    if len(others):
        batches = max(batches, ceil_divide(len(common), limit - 1))
        others = np.resize(others, (max(batches, len(others)), 2))
    dealt = np.concatenate([common, others])
    return [_distinct(order.permutation(dealt[first::batches]).ravel()) for first in range(batches)]


def pair_weights(groups: Rows) -> NDArray[np.float32]:
    """Return the weight (B, B) of each pair of texts in the loss; it is above the diagonal.

    Pairs within a group and pairs across groups have the sum ½ each, or 1 if all pairs are of one kind. A single text
    has no pair.
    """
    same = groups[:, None] == groups
    kinds = [kind for kind in (np.triu(same, 1), np.triu(~same, 1)) if kind.any()]
    found = np.zeros(same.shape, np.float32)
    for kind in kinds:
        found[kind] = 1 / (len(kinds) * kind.sum())
    return found


def _couples(rows: Rows, groups: Rows) -> Rows:
    """Return couples (M, 2) of `rows` (N,), which are sorted by group; an odd group's first text is there twice."""
    starts = np.flatnonzero(np.diff(groups[rows], prepend=-1))
    ends = np.append(starts[1:], len(rows))
    odd = (ends - starts) % 2 == 1
    return np.insert(rows, ends[odd], rows[starts[odd]]).reshape(-1, 2)


def _distinct(rows: Rows) -> Rows:
    """Return each of `rows` once, in their order."""
    return rows[np.sort(np.unique(rows, return_index=True)[1])]


class Contrastive(Classification):
    """Pairs of the texts of `train`; texts with several labels are a same-label pair if all their labels are equal.

    The encodings are the input of the head's linear layer. Nothing is evaluated: the training has a plan.
    """

    def __init__(self, train: TextBatches, config: TrainingConfig) -> None:
        super().__init__(train, None, config)
        self.groups = label_groups(gold_labels(train))

    def prepare(self, model: Any) -> None:
        """Do nothing: the options of a loss of labels have no effect."""

    def epoch(self, order: np.random.Generator) -> list[Batch]:
        """Return batches whose texts have pairs of one label and of different ones."""
        size = min(self.config.batch_size, self.config.max_tokens // int(self.train.lengths.max()))
        return [Batch(self.train, rows) for rows in pair_batches(self.groups, size, order)]

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the average of the mean over same-label pairs and the mean over all other pairs.

        The encoder's cost, if it has one, is added.
        """
        texts, rows = batch
        with matmul_precision(self.config.precision, self.device):
            encoded = model.encode(texts.gather(rows))
            states = model.head.text_states(encoded)
        loss = pair_loss(states.float(), self.groups[rows])
        return loss if encoded.cost is None else loss + encoded.cost


def pair_loss(states: Tensor, groups: Rows) -> Tensor:
    """Return the loss of all pairs of the encodings `states` (B, D), whose texts have `groups` (B,); 0 for one text."""
    directions = normalize(states, dim=1)
    weights, same = (
        to_device(values, states.device).to(states.dtype)
        for values in (pair_weights(groups), groups[:, None] == groups)
    )
    return (weights * (directions @ directions.T - same).square()).sum()
