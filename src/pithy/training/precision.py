"""bfloat16 where the processor multiplies in it; weights stay float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

T = TypeVar("T", bound=nn.Module)
Precision = Literal["auto", "fp32", "bf16"]
SMALL = 16**3  # weights: with no more, and one row, PyTorch passes oneDNN by


@runtime_checkable
class Joins(Protocol):
    """A part that takes one product where it took several."""

    def join_products(self) -> None:
        """Do so from here on."""


@cache
def multiplies_bf16(kind: str) -> bool:
    """Whether matrix products in bfloat16 are the fast ones: on GPUs, and on CPUs with instructions for them.

    Without these a CPU emulates them, slower than float32.
    """
    if kind != "cpu":
        return kind == "cuda"
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def lowered(model: T) -> T:
    """`model`, for answers only, with the weights of its linear layers in bfloat16 where products are fast in it.

    They say what they say under `products`, and need no lowering at every call. Products of one input become one.
    """
    for part in list(model.modules()):
        if isinstance(part, Joins):
            part.join_products()
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and multiplies_bf16(layer.weight.device.type):
            layer.bfloat16()
            if layer.weight.device.type == "cpu" and layer.weight.numel() > SMALL:
                _pack(layer)
    return model


def _pack(layer: nn.Linear) -> None:
    """Let `layer`, lowered and on a CPU, multiply by weights laid out for oneDNN once, not anew in every product.

    For the few dozen tokens of one text that is a quarter of the product.
    """
    product: Any = torch.ops.mkldnn._linear_pointwise.default
    weight, bias = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None), layer.bias

    def forward(x: Tensor) -> Tensor:
        out: Tensor = product(x.bfloat16(), weight, bias, "none", [], "")
        return out

    layer.forward = forward  # type: ignore[assignment, method-assign]


def products(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """A context of matrix products in bfloat16 where asked for, or by `auto` where they are fast."""
    lower = precision == "bf16" or (precision == "auto" and multiplies_bf16(device.type))
    return torch.autocast(device.type, dtype=torch.bfloat16) if lower else nullcontext()
