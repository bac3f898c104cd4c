"""MiniLM as a classifier: ours and transformers', with the same weights."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import torch

from benchmarks.timing import Plan
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.precision import has_fast_bf16
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View

SYSTEM, LENGTH = "bert", 128
SIDE = 2_048  # size of the square matrices that measure the machine's limit
FAST = "bf16" if has_fast_bf16("cpu") else "fp32"  # precision of training and prediction on this machine
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def ours(view: View, seed: int = 0) -> Any:
    """Return the system `bert` with the checkpoint's weights."""
    torch.manual_seed(seed)
    return RECIPES[SYSTEM].build(data_spec_of(view, LENGTH), SYSTEM)


def theirs(view: View, seed: int = 0) -> Any:
    """Return transformers' own classifier with the checkpoint's weights."""
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.manual_seed(seed)
    return AutoModelForSequenceClassification.from_pretrained(
        str(view.checkpoint), num_labels=len(view.labels), dtype=torch.float32
    )


def flops(model: Any, lengths: Any) -> float:
    """Return the FLOPs of predicting texts of `lengths` tokens; a multiply-add counts as two.

    Each token needs 2 for every weight of the layers, and 4·n·D in every layer for attention over the n tokens of its
    text.
    Embeddings and head are not counted.
    """
    blocks = model.encoder.blocks
    weights = sum(parameter.numel() for block in blocks for parameter in block.parameters() if parameter.dim() > 1)
    attention = 4 * len(blocks) * model.encoder.width
    counts = lengths.astype("float64")
    return float(2 * weights * counts.sum() + attention * (counts**2).sum())


def training_flops(model: Any, lengths: Any) -> float:
    """Return the FLOPs of training: the forward pass, and twice as many for the backward pass."""
    return 3 * flops(model, lengths)


def limit(plan: Plan, name: str) -> float:
    """Return the GFLOP/s of the fastest of several large matrix products in fp32 or bf16: a limit for any model."""
    side = plan.size(SIDE)
    a, b = (torch.randn(side, side, dtype=DTYPES[name]) for _ in range(2))
    times = []
    for _ in range(8):
        start = perf_counter()
        a @ b
        times.append(perf_counter() - start)
    return 2 * side**3 / min(times) / 1e9
