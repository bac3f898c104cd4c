"""MiniLM as a classifier: ours and the transformers library's, on the same weights."""

from __future__ import annotations

from typing import Any

import torch

from pithy.systems.registry import RECIPES
from pithy.text.view import View
from pithy.training.views import context_of

SYSTEM, LENGTH, THREADS = "bert", 128, 2


def ours(view: View) -> Any:
    """The system `bert` with the checkpoint's weights."""
    torch.manual_seed(0)
    return RECIPES[SYSTEM].build(context_of(view, LENGTH), SYSTEM)


def theirs(view: View) -> Any:
    """The library's own classifier with the checkpoint's weights."""
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(
        str(view.checkpoint), num_labels=len(view.labels), dtype=torch.float32
    )


def flops(model: Any, lengths: Any) -> float:
    """Floating-point operations of the training on texts of `lengths` tokens, a multiply-add as two.

    Forward and twice that backward: 2 for each weight of the layers and token, 4·n·D a layer and token for attention
    over the n tokens of its text. Word vectors and head are left out.
    """
    blocks = model.encoder.blocks
    weights = sum(parameter.numel() for block in blocks for parameter in block.parameters() if parameter.dim() > 1)
    attention = 4 * len(blocks) * model.encoder.width
    counts = lengths.astype("float64")
    return 3 * float(2 * weights * counts.sum() + attention * (counts**2).sum())
