"""Types of numbers of token states and of logits under autocast."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

RARE = 1e-4  # smallest share of texts with a label, and of texts without it, from which a bias starts


def to_autocast(x: Tensor) -> Tensor:
    """Return `x` of any shape in autocast's type, or `x` itself outside autocast."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class LayerNorm(nn.LayerNorm):
    """Layer norm that computes in float32 and, under autocast, returns autocast's type.

    PyTorch's own returns float32 there if its input is float32, or on a GPU always; each product that reads it then
    converts it again. In a post-LN encoder its output is the residual stream, which so stays in one type.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last dimension of `x`."""
        return to_autocast(super().forward(x))


class OutputLinear(nn.Linear):
    """Linear layer for logits, whose product keeps the type of the weights under autocast.

    In bfloat16, logits above 8 are multiples of 1/16, so that two classes can have equal logits. A fitted layer can
    also have a bias that is far larger than the differences between its logits.

    With `shares` (C,) of the training texts that have each label, the bias starts at their log-odds. From zero, a
    network with many labels, of which a text has few, spends its first epochs on learning that most are absent.
    """

    def __init__(self, inputs: int, classes: int, shares: Tensor | None = None) -> None:
        super().__init__(inputs, classes)
        if shares is not None:
            with torch.no_grad():
                self.bias.copy_(shares.clamp(RARE, 1 - RARE).logit())

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (…, C) of `x` (…, D)."""
        x = x.to(self.weight.dtype)
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x)


def output_product(product: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """Return the logits that `product` makes of the operands; under autocast, it computes them in float32."""
    kind = operands[0].device.type
    if not torch.is_autocast_enabled(kind):
        return product(*operands)
    with torch.autocast(kind, enabled=False):
        return product(*(each.float() for each in operands))
