"""Operators that PyTorch runs, and the sizes of their results."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Operators(TorchDispatchMode):
    """Dispatch mode that collects, in `largest`, the number of elements of each operator's largest result."""

    def __init__(self) -> None:
        super().__init__()
        self.largest: dict[str, int] = {}

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = call(*args, **(kwargs or {}))
        name = call.name().removeprefix("aten::").partition(".")[0]
        sizes = [value.numel() for value in tree_leaves(result) if isinstance(value, Tensor)]
        self.largest[name] = max([self.largest.get(name, 0), *sizes])
        return result
