"""bfloat16 matrix products where the hardware supports them; weights stay float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.torch_adapter import has_bf16_kernels, pack_linear

T = TypeVar("T", bound=nn.Module)
Precision = Literal["auto", "fp32", "bf16"]
SMALL = 16**3  # weights: with at most this many, and one row, PyTorch does not use oneDNN


@runtime_checkable
class JoinsProducts(Protocol):
    """Module that can join several matrix products into one."""

    def join_products(self) -> None:
        """Join the products from now on."""


@cache
def has_fast_bf16(kind: str) -> bool:
    """Return whether bfloat16 matrix products are fast on a device type: GPUs and CPUs with instructions for them.

    Others emulate them, slower than float32.
    """
    if kind != "cpu":
        return kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return has_bf16_kernels() and bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def prepare_for_inference(model: T) -> T:
    """Return `model`, for inference only, with linear layers in bfloat16 if products are fast in it, except for logits.

    The predictions are the same as under `matmul_precision`, without converting the weights in every call. Products of
    the same input are joined into one.
    """
    for part in list(model.modules()):
        if isinstance(part, JoinsProducts):
            part.join_products()
    for layer in model.modules():
        if not isinstance(layer, nn.Linear) or isinstance(layer, OutputLinear):
            continue
        if has_fast_bf16(layer.weight.device.type):
            layer.bfloat16()
            if layer.weight.device.type == "cpu" and layer.weight.numel() > SMALL:
                pack_linear(layer)
    return model


def matmul_precision(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return a context with bfloat16 matrix products if `precision` is bf16, or auto where they are fast."""
    lower = resolve_precision(precision, device) == "bf16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if lower else nullcontext()


def resolve_precision(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """Return the precision that `auto` stands for on `device`, otherwise `precision` itself."""
    if precision == "auto":
        return "bf16" if has_fast_bf16(device.type) else "fp32"
    return precision
