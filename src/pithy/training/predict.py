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
    """`logits` (N, C) in the order of the texts; `parts` (K, N, C) where the head has several classifiers."""

    logits: Array
    parts: Array | None

    @property
    def probabilities(self) -> Array:
        """Softmax of the logits, (N, C)."""
        shifted = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def accuracies(self, labels: NDArray[np.int64]) -> list[float]:
        """Accuracy of each part: α of the depth controller."""
        assert self.parts is not None
        return [float(a) for a in (self.parts.argmax(-1) == labels).mean(1)]


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
    return Predicted(_restored(logits, order, 0), _restored(parts, order, 1) if parts else None)


def _restored(pieces: list[Array], order: NDArray[np.int64], axis: int) -> Array:
    joined = np.concatenate(pieces, axis)
    out = np.empty_like(joined)
    if axis == 0:
        out[order] = joined
    else:
        out[:, order] = joined
    return out
