"""Contrastive objective: texts of one label get similar encodings, others different ones (Tunstall et al., 2022).

The loss is the squared error of the cosine of two encodings, which is to be 1 for a pair of one label and 0 for any
other (the cosine similarity loss of Reimers and Gurevych, 2019). All B (B - 1) / 2 pairs of a batch of B texts are
read; the paper encodes two texts for each pair (docs/development/log.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import normalize

from epigram.models.batches import Rows, TextBatches, to_device
from epigram.models.precision import matmul_precision
from epigram.models.predict import gold_labels
from epigram.training.config import TrainingConfig
from epigram.training.objectives.base import Batch
from epigram.training.objectives.classification import Classification
from epigram.training.objectives.pair_batches import label_groups, pair_batches, pair_weights


class Contrastive(Classification):
    """Pairs of the texts of `train`; two texts with several labels are of one label if they have the same ones.

    The encodings are those that the linear layer of the head reads. Nothing is evaluated: the training has a plan.
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
        """Return the mean over the pairs of one label and that over the others, half of each.

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
