"""The loss of class logits, for one label a text or several."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def classification_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean loss of `logits` (B, C): cross-entropy for class numbers (B,), binary for indicators (B, C)."""
    if labels.dim() == 1:
        return cross_entropy(logits.float(), labels)
    return binary_cross_entropy_with_logits(logits.float(), labels.float())
