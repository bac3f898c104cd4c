"""Checks of the machine: disk and GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from epigram.core.errors import DiskError, ParameterError
from epigram.runner.doctor.installation import CheckResult, problem

GIB = 1 << 30
MIN_DISK, ENOUGH_DISK = 1 * GIB, 5 * GIB  # free bytes of the disk; a run of the default systems writes below 1 GiB


def disk() -> Iterator[CheckResult]:
    """Check the free space of the current folder's disk."""
    free = shutil.disk_usage(Path.cwd()).free
    found = f"{free / GIB:,.1f} GiB free"
    if free < MIN_DISK:
        yield problem("disk", found, "free disk space, for example with `dvc gc --workspace`", DiskError)
    elif free < ENOUGH_DISK:
        yield CheckResult(
            "disk", "warning", found, f"free disk space: {ENOUGH_DISK / GIB:g} GiB are enough for most runs"
        )
    else:
        yield CheckResult("disk", "ok", found)


def gpu() -> Iterator[CheckResult]:
    """Check that the build of PyTorch fits the machine's GPU."""
    import torch

    from epigram.training.distributed import resources

    build = f"PyTorch {torch.__version__}"
    if torch.cuda.is_available():
        name, (major, minor) = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
        built_for = torch.cuda.get_arch_list()
        if built_for and not any(arch.startswith(f"sm_{major}") for arch in built_for):
            fix = "install a build of PyTorch for this GPU, or hide the GPU with CUDA_VISIBLE_DEVICES="
            found = f"{build} has no code for {name} (sm_{major}{minor}), only for {', '.join(built_for)}"
            yield problem("gpu", found, fix, ParameterError)
        else:
            yield CheckResult("gpu", "ok", f"{name}, {build}")
    elif not resources.GPU_DEVICE.exists():
        yield CheckResult("gpu", "ok", f"none, {build}")
    elif resources.has_unused_gpu():
        fix = "install the CUDA build of the same version of PyTorch"
        yield CheckResult("gpu", "warning", f"the GPU is not used: {build} is a CPU build", fix)
    else:
        fix = f"update the driver to one for CUDA {torch.version.cuda}, and check CUDA_VISIBLE_DEVICES"
        yield CheckResult("gpu", "warning", f"{build} cannot use the GPU", fix)
