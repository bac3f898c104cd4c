"""Check of the sizes in a saved model's config against its weights, before anything of that size is allocated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module
from torch.overrides import TorchFunctionMode

MAX_SIZE = 10_000_000  # limit of a size, and of elements outside the weights, such as a position table
MAX_EXTRA_TENSORS = 1_000  # limit of tensors outside the weights
RANDOM_FILLS = {Tensor.normal_, Tensor.random_, Tensor.uniform_}
MAX_COPIES = 4  # times that a tensor may be registered, for shared weights and wrapped modules


def check_sizes(weights: Mapping[str, Tensor], values: Any, build: Callable[[], nn.Module]) -> None:
    """Raise ValueError if `build`, which reads the sizes in `values`, builds a model with more elements than `weights`.

    The model is built once on the meta device, without memory. The build stops as soon as it has more elements.
    """
    elements = sum(each.numel() for each in weights.values())
    check_numbers(values, max(MAX_SIZE, elements))
    counted = _limited_registrations(MAX_COPIES * len(weights) + MAX_EXTRA_TENSORS, MAX_COPIES * elements + MAX_SIZE)
    with counted, torch.device("meta"), _NoInitialization():
        build()


class _NoInitialization(TorchFunctionMode):
    """Mode without weight initialization, which on the meta device imports PyTorch's compiler (two seconds)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor as it is instead of initializing it."""
        named = kwargs or {}
        if func in RANDOM_FILLS or getattr(func, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def check_numbers(values: Any, largest: int = MAX_SIZE) -> None:
    """Raise ValueError if an integer anywhere in the JSON value `values` exceeds `largest`."""
    remaining = [values]
    while remaining:
        each = remaining.pop()
        if isinstance(each, dict):
            remaining += each.values()
        elif isinstance(each, list):
            remaining += each
        elif isinstance(each, int) and abs(each) > largest:
            raise ValueError(f"config.json has a size above {largest:,}, which is more than the weights have")


@contextmanager
def _limited_registrations(tensors: int, elements: int) -> Iterator[None]:
    """Raise ValueError if modules that this thread builds register more `tensors` or `elements` than allowed."""
    thread, remaining = threading.get_ident(), [tensors, elements]

    def count(_: nn.Module, name: str, value: Tensor | None) -> None:
        if value is None or threading.get_ident() != thread:
            return
        remaining[0] -= 1
        remaining[1] -= value.numel()
        if min(remaining) < 0:
            raise ValueError("config.json describes a larger model than its weights")

    handles = [
        module.register_module_parameter_registration_hook(count),
        module.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
