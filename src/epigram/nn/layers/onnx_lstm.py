"""ONNX operators for exported models, for computations that tracing would unroll."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def lstm(layer: nn.LSTM, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Run the one-layer LSTM `layer` with R directions over texts `x` (B, L, I) of `lengths` (B,), as ONNX's operator.

    Returns the states (B, L, R·D), zero after the end of a text, and the last hidden and cell state (R, B, D). Works
    only while a model is traced for export.
    """
    from torch.onnx.ops import symbolic_multi_out

    batch, length, _ = x.shape
    directions, width = 1 + layer.bidirectional, layer.hidden_size
    weights = [[_reorder_gates(weight) for weight in direction] for direction in layer.all_weights]
    inputs, states = (torch.stack([direction[i] for direction in weights]) for i in (0, 1))  # (R, 4D, I), (R, 4D, D)
    bias = torch.stack([torch.cat(direction[2:]) for direction in weights])  # (R, 8D)
    y, h, c = symbolic_multi_out(
        "LSTM",
        [x.transpose(0, 1), inputs, states, bias, lengths.to(torch.int32)],
        {"hidden_size": width, "direction": "bidirectional" if layer.bidirectional else "forward"},
        dtypes=[x.dtype] * 3,
        shapes=[(length, directions, batch, width), (directions, batch, width), (directions, batch, width)],
    )
    return y.permute(2, 0, 1, 3).flatten(2), h, c  # (L, R, B, D) → (B, L, R·D)


def _reorder_gates(weight: Tensor) -> Tensor:
    """Reorder the gates of `weight` (4D, …) from torch's order i, f, g, o to ONNX's order i, o, f, g."""
    i, f, g, o = weight.chunk(4)
    return torch.cat([i, o, f, g])
