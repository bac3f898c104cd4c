"""What a model costs: parameters, floating-point operations, time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from pithy.layers.types import Tokens
from pithy.systems.linear_svm import LinearSvm
from pithy.systems.saved import TextFrame
from pithy.systems.startup import keep_plain

LETTERS = 5  # of every token, where a model reads its characters


def flops(model: nn.Module, length: int, frame: TextFrame) -> int:
    """Floating-point operations of one text, `length` tokens with its frame: matrix products and convolutions.

    A multiply-add counts as two.
    """
    from torch.utils.flop_counter import FlopCounterMode, _FlopCounterMode

    keep_plain(_FlopCounterMode.__torch_dispatch__)
    if isinstance(model, LinearSvm):  # one weight a class and n-gram
        return 2 * model.classes * sum(max(0, length - n + 1) for n in range(model.orders[0], model.orders[1] + 1))
    text = torch.arange(length - len(frame.prefix_ids) - len(frame.suffix_ids)) % frame.vocabulary
    ids = torch.tensor([*frame.prefix_ids, *text.tolist(), *frame.suffix_ids]).unsqueeze(0)
    spelled = torch.full((*ids.shape, LETTERS), 1) if frame.characters else None
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mkldnn_rnn_layer: _recurrent})
    with torch.inference_mode(), counter:
        model.eval()(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), characters=spelled))
    return int(counter.get_total_flops())


def _recurrent(texts: Sequence[int], inputs: Sequence[int], states: Sequence[int], *_: Any, **__: Any) -> int:
    """Of a fused recurrent layer, by the shapes of its texts (L, B, I) and of its weights (4H, I) and (4H, H)."""
    return 2 * texts[0] * texts[1] * (math.prod(inputs) + math.prod(states))


def milliseconds(run: Callable[[int], Any], texts: int, *, warm: int = 5) -> float:
    """Median milliseconds of `run(i)` over `texts` calls, after a few that do not count."""
    for i in range(min(warm, texts)):
        run(i)
    times = []
    for i in range(texts):
        start = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1000)
