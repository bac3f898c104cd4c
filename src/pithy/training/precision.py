"""bfloat16 where the processor multiplies in it; weights stay float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]


@cache
def multiplies_bf16(kind: str) -> bool:
    """Whether matrix products in bfloat16 are the fast ones: on GPUs, and on CPUs with instructions for them.

    Without these a CPU emulates them, slower than float32.
    """
    if kind != "cpu":
        return kind == "cuda"
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def products(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 where asked for, or by `auto` where they are fast."""
    lower = precision == "bf16" or (precision == "auto" and multiplies_bf16(device.type))
    return torch.autocast(device.type, dtype=torch.bfloat16) if lower else nullcontext()
