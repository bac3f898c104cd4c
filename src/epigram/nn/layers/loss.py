"""Loss of class logits, for one label or several labels per text."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def classification_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss of `logits` (B, C).

    It is the cross-entropy for class indices `labels` (B,), the binary cross-entropy for indicators (B, C).
    """
    if labels.dim() == 1:
        return cross_entropy(logits.float(), labels)
    return binary_cross_entropy_with_logits(logits.float(), labels.float())
