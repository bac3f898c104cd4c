"""Operators of a training step that make the host wait for a GPU, found without one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = {
    "_local_scalar_dense", "_unique", "_unique2", "equal", "is_nonzero", "masked_scatter_backward", "masked_select",
    "nonzero", "unique_consecutive", "unique_dim", "unique_dim_consecutive",
}  # fmt: skip
INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}  # which read a boolean mask


class Waits(TorchDispatchMode):
    """Dispatch mode that collects, in `found`, the operators that read a value or copy between two devices.

    On the CPU, `Tensor.tolist` calls no operator, and nor does `Tensor.item` in inference mode, so they are not found.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = call(*args, **(kwargs or {}))
        name = call.name().removeprefix("aten::")
        if _reads(name.partition(".")[0], args, kwargs or {}) or _copies(name, args, result):
            self.found.append(name)
        return result


def _reads(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether the result has a value on the host, or a shape that depends on values."""
    if name in INDEXES:
        return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return name in READS or (name == "repeat_interleave" and kwargs.get("output_size") is None)


def _copies(name: str, args: Any, result: Any) -> bool:
    tensors = [value for value in tree_leaves((args, result)) if isinstance(value, Tensor)]
    return name.startswith(("_to_copy", "copy_")) and len({tensor.device for tensor in tensors}) > 1
