"""Starting quickly: PyTorch's compiler stays unloaded where nothing is compiled. And memory that is kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt


def keep_plain(*functions: Callable[..., Any]) -> None:
    """Let `functions`, which PyTorch shields from its compiler, run as they are.

    The shield imports the compiler (1.5 s) at the first call and keeps its product on the function; putting the bare
    function there first spares the import. Where PyTorch shields otherwise, nothing changes.
    """
    for function in functions:
        bare = getattr(function, "__wrapped__", None)
        if bare is not None and not hasattr(bare, "__dynamo_disable"):
            bare.__dynamo_disable = bare


def plain_optimizer(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """`kind` with a step and a reset that do not import the compiler."""
    base = torch.optim.Optimizer
    keep_plain(base.add_param_group, base.zero_grad, base.state_dict, base.load_state_dict)
    step: Any = kind.step
    return type(kind.__name__, (kind,), {"step": torch.no_grad()(step.__wrapped__)})


@cache
def keep_memory() -> None:
    """Let the C library keep what tensors give back, for the next step's: new pages are slow (glibc, else nothing).

    The gradient of a large token table alone, fresh memory in every step, is a tenth of a step on a CPU.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    tune(M_MMAP_MAX, 0)
    tune(M_TRIM_THRESHOLD, 2**31 - 1)
