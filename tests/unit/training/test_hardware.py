"""What determines a training besides its settings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from epigram.models import precision
from epigram.models.precision import Precision
from epigram.training.distributed import resources as module
from epigram.training.distributed.resources import hardware, has_unused_gpu

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("asked", "fast", "used"),
    [("auto", True, "bf16"), ("auto", False, "fp32"), ("fp32", True, "fp32"), ("bf16", False, "bf16")],
)
def test_the_precision_is_the_one_that_is_used(
    asked: Precision, fast: bool, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_fast_bf16", lambda kind: fast)
    assert hardware(asked, CPU) == {"device": "cpu", "precision": used, "torch": torch.__version__}


@pytest.mark.parametrize(
    ("exists", "cuda", "unused"), [(True, None, True), (True, "13.0", False), (False, None, False)]
)
def test_a_cpu_build_beside_a_gpu_is_noticed(
    exists: bool, cuda: str | None, unused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GPU_DEVICE", SimpleNamespace(exists=lambda: exists))
    monkeypatch.setattr(torch.version, "cuda", cuda)
    assert has_unused_gpu() is unused
