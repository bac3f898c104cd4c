"""Objective of a student: the cross-entropy with the probabilities of its teacher (Hinton et al., 2015)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from epigram.models.precision import matmul_precision
from epigram.training.objectives.base import Batch
from epigram.training.objectives.classification import Classification


class Distillation(Classification):
    """Probabilities (N, C) as the labels of `train`: of a teacher, or 0 and 1 for a text with a label.

    The temperature of the paper is 1, as the teacher's probabilities are calibrated.
    """

    def prepare(self, model: Any) -> None:
        """Do nothing: the options of a loss of labels have no effect."""

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the texts, or of all labels if a text may have several.

        The encoder's cost, if it has one, is added. For a model with a summed loss, it is the sum over the texts.
        """
        texts, rows = batch
        with matmul_precision(self.config.precision, self.device):
            encoded = model.encode(texts.gather(rows))
            logits = model.head(encoded, None).logits.float()
        loss_of = binary_cross_entropy_with_logits if model.multi else cross_entropy
        loss: Tensor = loss_of(logits, texts.targets(rows))
        loss = loss if encoded.cost is None else loss + encoded.cost
        return len(rows) * loss if model.summed else loss
