"""Bidirectional LSTM (Hochreiter and Schmidhuber, 1997) that never reads padding, and its ONNX operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from epigram.nn.layers.dropout import Dropout
from epigram.nn.torch_adapter import has_bf16_kernels


def traceable_lstm(layer: nn.LSTM, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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


def reverse_texts(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first `lengths` (B,) tokens of each row of `x` (B, L, D); padding stays in place."""
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - position  # (B, L), negative on padding
    return x.gather(1, torch.where(mirrored < 0, position, mirrored).unsqueeze(-1).expand_as(x))


def fused_lstm(lstm: nn.LSTM, x: Tensor) -> Any:
    """Return what `lstm` (one layer, batch first) returns for `x` (B, L, I), in bfloat16 under autocast.

    PyTorch raises RuntimeError on a CPU for which oneDNN has no LSTM in bfloat16. There, the input and the weights are
    rounded to bfloat16, and the states are computed in float32.
    """
    if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu") or has_bf16_kernels():
        return lstm(x)
    weights = [weight.bfloat16().float() for direction in lstm.all_weights for weight in direction]
    start = x.new_zeros(len(lstm.all_weights), len(x), lstm.hidden_size, dtype=torch.float32)
    with torch.autocast("cpu", enabled=False):
        states, h, c = torch.lstm(
            x.bfloat16().float(), (start, start), weights, True, 1, 0.0, lstm.training, lstm.bidirectional, True
        )
    return states, (h, c)


def run_direction(
    lstm: nn.LSTM, x: Tensor, lengths: Tensor, shortest: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one direction over texts `x` (B, L, I): states (B, L, D), last hidden and last cell state (B, D).

    The fused kernel processes the positions that all rows have. After these, a row that has ended keeps its state.
    Batches hold texts of similar length, so on a CPU this is three times as fast as packed sequences. `shortest` is the
    smallest of `lengths` (B,); None reads it from them, which waits for the device.
    """
    if torch.compiler.is_exporting():
        y, h, c = traceable_lstm(lstm, x, lengths)
        return y, h[0], c[0]
    common = int(lengths.min()) if shortest is None else shortest
    y, (h, c) = fused_lstm(lstm, x[:, :common])
    states, h, c = [y], h[0], c[0]
    for position in range(common, x.shape[1]):
        new_h, new_c = torch.lstm_cell(x[:, position], (h, c), *lstm.all_weights[0])
        running = (position < lengths).unsqueeze(1)
        h, c = torch.where(running, new_h, h), torch.where(running, new_c, c)
        states.append(h.unsqueeze(1))
    return torch.cat(states, 1), h, c


class BiLstm(nn.Module):
    """Two LSTMs, one per direction, with concatenated states: (B, L, I) → (B, L, D), zero on padding.

    `inputs` is I and `width` is D, half of it for each direction. Raises ValueError if `width` is odd.
    """

    def __init__(self, *, inputs: int, width: int, dropout: float = 0.0) -> None:
        if width % 2:
            raise ValueError(f"width is {width}; expected an even number, half of it for each direction")
        super().__init__()
        self.inputs, self.width = inputs, width
        self.ahead = nn.LSTM(inputs, width // 2, batch_first=True)
        self.back = nn.LSTM(inputs, width // 2, batch_first=True)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, valid: Tensor, shortest: int | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states (B, L, D) of `x` (B, L, I) and the last hidden and cell state (B, D) of both directions.

        The last state of the backward direction is its state at the first token. `shortest` is the length of the
        shortest text, if the host knows it.
        """
        lengths = valid.sum(1)
        ahead, ahead_h, ahead_c = run_direction(self.ahead, x, lengths, shortest)
        back, back_h, back_c = run_direction(self.back, reverse_texts(x, lengths), lengths, shortest)
        states = torch.cat([ahead, reverse_texts(back, lengths)], -1) * valid.unsqueeze(-1).to(x.dtype)
        return self.dropout(states), (torch.cat([ahead_h, back_h], -1), torch.cat([ahead_c, back_c], -1))
