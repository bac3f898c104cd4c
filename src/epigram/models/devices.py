"""The device that a network runs on."""

from __future__ import annotations

import torch

from epigram.core.errors import ParameterError

AUTO = "auto"


def default_device() -> torch.device:
    """Return the GPU if there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def find_device(name: str) -> torch.device:
    """Return the device with a name such as cuda:1, or the default one for `auto`.

    Raises ParameterError for a device that this machine does not have.
    """
    if name == AUTO:
        return default_device()
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    found = ["cpu", *(["cuda", *gpus] if gpus else []), *(["mps"] if torch.backends.mps.is_available() else [])]
    if name not in found:
        raise ParameterError(
            f"device is {name!r}; expected auto, or one that PyTorch finds: {', '.join(found)} (--device)"
        )
    return torch.device(name)
