"""Faster start of PyTorch, by not importing its compiler, and faster steps, by keeping freed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # parameters of glibc's mallopt


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
    """Return a subclass of `kind` that runs without importing the compiler."""
    base = torch.optim.Optimizer
    bypass_compiler(base.add_param_group, base.zero_grad, base.state_dict, base.load_state_dict)
    step: Any = kind.step
    return type(kind.__name__, (kind,), {"step": torch.no_grad()(step.__wrapped__)})


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
