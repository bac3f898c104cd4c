"""Logits of many texts at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pithy.training.batches import TextBatches

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Predicted:
    """`logits` (N, C) in the order of the texts; `parts` (K, N, C) where the head has several classifiers.

    `multi`: a text may have several labels, and each logit stands for itself.
    """

    logits: Array
    parts: Array | None
    multi: bool = False

    @property
    def probabilities(self) -> Array:
        """Softmax of the logits, or for several labels a text their sigmoid, (N, C)."""
        if self.multi:
            return np.asarray(1 / (1 + np.exp(-self.logits)))
        shifted = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def score(self, labels: NDArray[np.integer]) -> float:
        """Accuracy, or micro-F1 at 0.5 where a text may have several labels."""
        return self._score(self.logits, labels)

    def scores(self, labels: NDArray[np.integer]) -> list[float]:
        """Score of each part: α of the depth controller."""
        assert self.parts is not None
        return [self._score(part, labels) for part in self.parts]

    def loss(self, labels: NDArray[np.integer]) -> float:
        """Mean negative log-likelihood of `labels`, (N,) class numbers or (N, C) indicators."""
        p = np.clip(self.probabilities, 1e-7, 1 - 1e-7)
        if self.multi:
            return float(-np.where(labels > 0, np.log(p), np.log1p(-p)).mean())
        return float(-np.log(p[np.arange(len(labels)), labels]).mean())

    def _score(self, logits: Array, labels: NDArray[np.integer]) -> float:
        if not self.multi:
            return float((logits.argmax(-1) == labels).mean())
        said, gold = logits > 0, labels > 0
        return float(2 * (said & gold).sum() / max(1, said.sum() + gold.sum()))


@torch.inference_mode()
def predict(model: nn.Module, texts: TextBatches, *, batch_size: int = 256, max_tokens: int = 32_768) -> Predicted:
    """Run `model` over `texts`, longest first, and put the results back in the texts' order."""
    model.eval()
    rows, logits, parts = [], [], []
    for batch in texts.in_order(batch_size, max_tokens):
        prediction = model(texts.gather(batch))
        rows.append(batch)
        logits.append(prediction.logits.float().cpu().numpy())
        if prediction.parts is not None:
            parts.append(prediction.parts.float().cpu().numpy())
    order = np.concatenate(rows)
    together = _restored(parts, order, 1) if parts else None
    return Predicted(_restored(logits, order, 0), together, bool(getattr(model, "multi", False)))


def _restored(pieces: list[Array], order: NDArray[np.int64], axis: int) -> Array:
    joined = np.concatenate(pieces, axis)
    out = np.empty_like(joined)
    if axis == 0:
        out[order] = joined
    else:
        out[:, order] = joined
    return out
