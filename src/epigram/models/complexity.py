"""Cost of a model: floating-point operations and inference time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from epigram.models.linear_svm import LinearSvm
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import Tokens
from epigram.nn.torch_adapter import CPU_ATTENTION, count_flops

CHARACTERS_PER_TOKEN = 5  # assumed characters per token, for models that read characters
BATCH_TOKENS = 64 * 100  # batch size in DMSP, Table 4: 64 texts of 100 tokens
UNWEIGHTED = {"bmm", "baddbmm", CPU_ATTENTION}  # products of hidden states with each other, for example in attention


def flops(model: nn.Module, length: int, frame: TextTemplate) -> int:
    """Return the floating-point operations of one text of `length` tokens, prompt and special tokens included.

    Matrix products, also inside fused attention, and convolutions are counted. A multiply-add counts as two operations.
    """
    return sum(_operations(model, length, frame).values())


def batch_macs(model: nn.Module, length: int, frame: TextTemplate) -> float:
    """Return the multiply-adds of BATCH_TOKENS tokens in texts of `length` tokens: the "FLOPs" of DMSP, Table 4.

    Like the paper, count the layers with weights and not the products of hidden states in attention.
    """
    counts = _operations(model, length, frame)
    weighted = sum(count for name, count in counts.items() if name not in UNWEIGHTED)
    return weighted / 2 * BATCH_TOKENS / length


def _operations(model: nn.Module, length: int, frame: TextTemplate) -> dict[str, int]:
    """Return the floating-point operations of one text by the name of the operator."""
    if isinstance(model, LinearSvm):  # one weight per class and n-gram
        count = _count_ngrams(length, model.counted.orders)
        if model.counted.spelled is not None:  # n-grams of each token between two marks
            count += length * _count_ngrams(CHARACTERS_PER_TOKEN + 2, model.counted.spelled)
        return {"ngrams": 2 * model.classes * count}
    text = torch.arange(length - len(frame.prefix_ids) - len(frame.suffix_ids)) % frame.vocabulary
    ids = torch.tensor([*frame.prefix_ids, *text.tolist(), *frame.suffix_ids]).unsqueeze(0)
    characters = torch.full((*ids.shape, CHARACTERS_PER_TOKEN), 1) if frame.characters else None
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), characters=characters)
    with torch.inference_mode():
        counts = count_flops(lambda: model.eval()(tokens), {torch.ops.aten.mkldnn_rnn_layer: _recurrent_flops})
    return {str(operator).rpartition(".")[2]: count for operator, count in counts.items()}


def _count_ngrams(length: int, orders: tuple[int, int]) -> int:
    """Return the number of n-grams of a sequence."""
    return sum(max(0, length - n + 1) for n in range(orders[0], orders[1] + 1))


def _recurrent_flops(texts: Sequence[int], inputs: Sequence[int], states: Sequence[int], *_: Any, **__: Any) -> int:
    """Return the operations of a fused recurrent layer for texts (L, B, I) and weights (4H, I) and (4H, H)."""
    return 2 * texts[0] * texts[1] * (math.prod(inputs) + math.prod(states))


def milliseconds(
    run: Callable[[int], Any], texts: int, *, warm: int = 5, least: int = 32, seconds: float = math.inf
) -> float:
    """Return the median time of `texts` calls of `run(i)` in milliseconds, after at most `warm` warm-up calls.

    If `least` calls have been timed, no call starts after `seconds`.
    """
    for i in range(min(warm, texts)):
        run(i)
    times: list[float] = []
    while len(times) < texts and (len(times) < least or sum(times) < seconds):
        start = time.perf_counter()
        run(len(times))
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1000)
