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
from epigram.nn.torch_adapter import count_flops

CHARACTERS_PER_TOKEN = 5  # assumed characters per token, for models that read characters


def flops(model: nn.Module, length: int, frame: TextTemplate) -> int:
    """Return the floating-point operations of one text of `length` tokens, prompt and special tokens included.

    Matrix products and convolutions are counted. A multiply-add counts as two operations.
    """
    if isinstance(model, LinearSvm):  # one weight per class and n-gram
        return 2 * model.classes * sum(max(0, length - n + 1) for n in range(model.orders[0], model.orders[1] + 1))
    text = torch.arange(length - len(frame.prefix_ids) - len(frame.suffix_ids)) % frame.vocabulary
    ids = torch.tensor([*frame.prefix_ids, *text.tolist(), *frame.suffix_ids]).unsqueeze(0)
    characters = torch.full((*ids.shape, CHARACTERS_PER_TOKEN), 1) if frame.characters else None
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), characters=characters)
    with torch.inference_mode():
        return count_flops(lambda: model.eval()(tokens), {torch.ops.aten.mkldnn_rnn_layer: _recurrent_flops})


def _recurrent_flops(texts: Sequence[int], inputs: Sequence[int], states: Sequence[int], *_: Any, **__: Any) -> int:
    """Return the operations of a fused recurrent layer for texts (L, B, I) and weights (4H, I) and (4H, H)."""
    return 2 * texts[0] * texts[1] * (math.prod(inputs) + math.prod(states))


def milliseconds(run: Callable[[int], Any], texts: int, *, warm: int = 5) -> float:
    """Return the median time of `texts` calls of `run(i)` in milliseconds, after at most `warm` warm-up calls."""
    for i in range(min(warm, texts)):
        run(i)
    times = []
    for i in range(texts):
        start = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1000)
