"""Log-probability of all classes but one."""

from __future__ import annotations

import torch
from torch import Tensor


def log_complement(logits: Tensor) -> Tensor:
    """Return log(1 − p) (B, C), where p is the softmax of `logits` (B, C) over at least two classes.

    Where p is at most one half, 1 − p keeps all its digits. Only the most probable class can have more, so its value is
    the logarithm of the sum of the others. This takes O(B·C) memory.
    """
    best = logits.argmax(-1, keepdim=True)
    is_best = torch.arange(logits.shape[1], device=logits.device) == best  # (B, C)
    of_best = logits.masked_fill(is_best, float("-inf")).logsumexp(-1, keepdim=True)
    of_best = of_best - logits.logsumexp(-1, keepdim=True)  # (B, 1)
    p = logits.softmax(-1).masked_fill(is_best, 0.0)  # log1p has no finite derivative where p is 1
    return torch.where(is_best, of_best, torch.log1p(-p))
