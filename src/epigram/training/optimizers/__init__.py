"""Optimizers by name. Each module of this package registers one function that builds an optimizer, under its own name.

The function takes the parameter groups and the training settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from epigram.core.registry import Registry

ParameterGroups = list[dict[str, Any]]
KINDS: Registry[Callable[..., torch.optim.Optimizer]] = Registry(__name__)
register = KINDS.register
