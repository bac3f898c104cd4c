"""Parts of PyTorch that its documentation does not cover, in one place, and glibc's memory settings.

They make PyTorch start faster, by not importing its compiler, and compute faster. Each has a fallback without the
undocumented part; tests/contract/test_adapters_torch.py names a part that a new version does not have.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # parameters of glibc's mallopt
SOFTMAX_GRADIENT = "_softmax_backward_data"  # operator
CPU_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"  # operator; PyTorch's FLOP counter does not know it


def bypass_compiler(*functions: Callable[..., Any]) -> None:
    """Let `functions`, which PyTorch excludes from compilation by a wrapper, run without that wrapper.

    The wrapper imports the compiler (1.5 s) at the first call and caches its result as an attribute of the function.
    This function stores the unwrapped function in that attribute first, which avoids the import. If PyTorch uses
    another kind of wrapper, nothing changes.
    """
    for function in functions:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None and not hasattr(wrapped, "__dynamo_disable"):
            wrapped.__dynamo_disable = wrapped


def optimizer_without_compiler(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Return a subclass of `kind` that runs without importing the compiler, or `kind` if its wrapper is unknown."""
    base = torch.optim.Optimizer
    bypass_compiler(base.add_param_group, base.zero_grad, base.state_dict, base.load_state_dict)
    step = getattr(kind.step, "__wrapped__", None)
    return kind if step is None else type(kind.__name__, (kind,), {"step": torch.no_grad()(step)})


def count_flops(run: Callable[[], object], custom: Mapping[Any, Callable[..., int]]) -> Mapping[Any, int]:
    """Return the floating-point operations of `run()` by operator, such as `torch.ops.aten.addmm`.

    `custom` maps further operators to functions that count them. Both products of fused attention are counted.
    """
    from torch.utils import flop_counter

    mode = getattr(flop_counter, "_FlopCounterMode", None)  # the part of FlopCounterMode with the compiler's wrapper
    if mode is not None:
        bypass_compiler(mode.__torch_dispatch__)
    attention = getattr(torch.ops.aten, CPU_ATTENTION, None)
    known = dict(custom) if attention is None else {attention: _attention_flops, **custom}
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=known)
    with counter:
        run()
    counts: Mapping[str, Mapping[Any, int]] = counter.get_flop_counts()
    return counts.get("Global", {})


def _attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    """Return the operations of softmax(q kᵀ) v for shapes (B, H, L, d), (B, H, M, d) and (B, H, M, d)."""
    return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])


@cache
def has_bf16_kernels() -> bool:
    """Return whether oneDNN has kernels in bfloat16 for this CPU, fast or emulated.

    They require AVX-512. The environment variable ONEDNN_MAX_CPU_ISA=AVX2 hides it.
    """
    supported: Any = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(torch.cpu.get_capabilities().get("avx512_f") if supported is None else supported())


def pack_linear(layer: nn.Linear) -> None:
    """Let `layer`, in bfloat16 on a CPU, use weights that are laid out for oneDNN once, not in every product.

    For the few dozen tokens of one text, the layout takes a quarter of the product's time. PyTorch's public conversion
    (torch.utils.mkldnn) does not work under autocast. Without these operators, nothing changes.
    """
    operators: Any = torch.ops.mkldnn
    if not (hasattr(operators, "_linear_pointwise") and hasattr(operators, "_reorder_linear_weight")):
        return
    product: Any = operators._linear_pointwise.default
    weight, bias = operators._reorder_linear_weight(layer.weight.detach(), None), layer.bias

    def forward(x: Tensor) -> Tensor:
        out: Tensor = product(x.bfloat16(), weight, bias, "none", [], "")
        return out

    replace_forward(layer, forward)


def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Let `module` compute `forward`, until `restore_forward`.

    Another module in its place would need another place in every list and under every name that refers to it.
    """
    module.forward = forward


def restore_forward(module: nn.Module) -> None:
    """Let `module` compute what its class computes."""
    vars(module).pop("forward")


def softmax_gradient(gradient: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores, given the `gradient` of their softmax `weights` over the last dimension.

    PyTorch's own kernel for it, if there is one, reads both once.
    """
    kernel = getattr(torch.ops.aten, SOFTMAX_GRADIENT, None)
    if kernel is None:
        return (gradient - (gradient * weights).sum(-1, keepdim=True)) * weights
    found: Tensor = kernel(gradient, weights, -1, weights.dtype)
    return found


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed tensor memory for the next step, because new pages are slow.

    The setting exists in glibc only. On a CPU, new memory for the gradient of a large token table alone takes a tenth
    of each step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
