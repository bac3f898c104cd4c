"""What a training runs on: device, precision of matrix products, and version of PyTorch."""

from __future__ import annotations

from pathlib import Path

import torch

from epigram.models.precision import Precision, resolve_precision

GPU_DEVICE = Path("/dev/nvidiactl")  # of NVIDIA's driver


def hardware(precision: Precision, device: torch.device) -> dict[str, str]:
    """Return what determines the results of a training besides its settings, as facts of the model."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"device": name, "precision": resolve_precision(precision, device), "torch": torch.__version__}


def has_unused_gpu() -> bool:
    """Return whether the machine has an NVIDIA GPU, but this build of PyTorch is for CPUs."""
    return torch.version.cuda is None and GPU_DEVICE.exists()
