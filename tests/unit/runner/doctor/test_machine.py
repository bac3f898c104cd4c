"""Tests of the checks of disk and GPU."""

from __future__ import annotations

from collections import namedtuple

import pytest

from epigram.runner.doctor import machine
from epigram.runner.doctor.installation import exit_status
from tests.support.doctor import gpu, results

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("gib", "expected"),
    [
        (0.9, ("problem", "0.9 GiB free")),
        (1, ("warning", "1.0 GiB free")),
        (4.9, ("warning", "4.9 GiB free")),
        (5, ("ok", "5.0 GiB free")),
    ],
)
def test_free_disk_space(gib: float, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: Usage(0, 0, int(gib * 2**30)))
    assert results(machine.disk) == [expected]
    assert exit_status(machine.disk()) == (74 if expected[0] == "problem" else 0)


@pytest.mark.parametrize(
    ("device", "usable", "built", "codes", "expected"),
    [
        (False, False, None, [], ("ok", "none, PyTorch 2.13.0")),
        (True, False, None, [], ("warning", "the GPU is not used: PyTorch 2.13.0 is a CPU build")),
        (True, False, "13.0", [], ("warning", "PyTorch 2.13.0 cannot use the GPU")),
        (True, True, "13.0", ["sm_80", "sm_90"], ("ok", "H200, PyTorch 2.13.0")),
        (True, True, "13.0", ["sm_70", "sm_80"],
         ("problem", "PyTorch 2.13.0 has no code for H200 (sm_90), only for sm_70, sm_80")),
    ],
)  # fmt: skip
def test_the_build_of_pytorch_fits_the_gpu(
    device: bool, usable: bool, built: str | None, codes: list[str], expected: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    gpu(monkeypatch, device=device, usable=usable, built=built, codes=codes)
    assert results(machine.gpu) == [expected]
