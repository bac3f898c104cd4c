"""Results of doctor's checks, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch

from epigram.runner.doctor.installation import CheckResult
from epigram.training.distributed import resources

Checks = Callable[[], Iterator[CheckResult]]


def results(check: Checks) -> list[tuple[str, str]]:
    """Return status and finding of each line of a check."""
    return [(each.status, each.found) for each in check()]


def gpu(monkeypatch: pytest.MonkeyPatch, *, device: bool, usable: bool, built: str | None, codes: list[str]) -> None:
    """Pretend a GPU of compute capability 9.0 and a build of PyTorch."""
    monkeypatch.setattr(resources, "GPU_DEVICE", SimpleNamespace(exists=lambda: device))
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    monkeypatch.setattr(torch.version, "cuda", built)
    for name, value in {
        "is_available": usable, "get_device_name": "H200", "get_device_capability": (9, 0), "get_arch_list": codes
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
