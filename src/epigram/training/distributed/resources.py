"""What a training runs on: processes (`train.processes`), threads, device, and precision of matrix products."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch

from epigram.core.errors import ParameterError
from epigram.core.machine import count_processors
from epigram.models.precision import Precision, resolve_precision
from epigram.models.recipe import Recipe
from epigram.training.config import TrainingConfig

GPU_DEVICE = Path("/dev/nvidiactl")  # device file of NVIDIA's driver


def hardware(precision: Precision, device: torch.device) -> dict[str, str]:
    """Return what determines the results of a training besides its settings, as facts of the model."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"device": name, "precision": resolve_precision(precision, device), "torch": torch.__version__}


def has_unused_gpu() -> bool:
    """Return whether the machine has an NVIDIA GPU, but this build of PyTorch is for CPUs."""
    return torch.version.cuda is None and GPU_DEVICE.exists()


def resolve_threads(config: TrainingConfig, recipe: Recipe, checkpoint: str | None) -> TrainingConfig:
    """Return `config`, whose number of processes is resolved, with `threads: auto` resolved to a number.

    A pretrained encoder that starts from a `checkpoint` gets all cores, a Universal Sentence Encoder only if it is
    trained. Every other system gets one core, because small models lose more time by waiting for threads than they gain
    from them.
    """
    if config.threads != "auto":
        return config
    kind = recipe.encoder.get("kind")
    large = checkpoint is not None and (kind == "pretrained" or (kind == "sentence_encoder" and recipe.by_gradient))
    return replace(config, threads=available_cores(int(config.processes)) if large else 1)


def available_cores(processes: int = 1) -> int:
    """Return the number of cores for each of the `processes` of a training, or of torchrun on this machine."""
    return max(1, count_processors() // int(os.environ.get("LOCAL_WORLD_SIZE", processes)))


def launched_processes() -> int:
    """Return the number of processes that a launcher has started, this one included; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def resolve_processes(
    config: TrainingConfig, recipe: Recipe, *, folds: int, taught: bool = False, gpus: int | None = None
) -> TrainingConfig:
    """Return `config` with the number of processes that train the system; torchrun's own number has priority.

    `auto` is the number of `gpus` (default: all that PyTorch finds), but at most one process per text of a batch. It
    is 1 without a GPU. With `folds`, for a student, which is `taught` by a teacher, and for a model that is not trained
    by gradient descent on its labels, it is 1.
    Raises ParameterError for another number that is impossible.
    """
    one = _reason_for_one(recipe, folds, taught)
    launched = launched_processes()
    if launched > 1:
        _check_launched(config, launched, one)
        return replace(config, processes=launched)
    if taught or recipe.train_settings is not None:  # the checks report that the setting has no effect
        return replace(config, processes=1)
    gpus = torch.cuda.device_count() if gpus is None else gpus
    if config.processes == "auto":
        return replace(config, processes=1 if one else max(1, min(gpus, config.batch_size)))
    _check(config.processes, config.batch_size, gpus, one)
    return config


def _reason_for_one(recipe: Recipe, folds: int, taught: bool) -> str:
    """Return why the system is trained in one process; empty if several are possible."""
    if taught:
        return "a student is trained in one process"
    if folds:
        return "train has folds, which are trained in one process"
    return "" if recipe.train_settings is None else f"{recipe.training}, so it is trained in one process"


def _check_launched(config: TrainingConfig, launched: int, one: str) -> None:
    """Raise ParameterError if the processes of torchrun cannot train the system, or if another number is set."""
    if one:
        raise ParameterError(f"{one}; start without torchrun")
    if config.processes not in (1, "auto", launched):
        raise ParameterError(
            f"params.yaml: train.processes is {config.processes}, but torchrun has started {launched} processes; "
            "start without torchrun, or remove the setting"
        )


def _check(count: int, batch_size: int, gpus: int, one: str) -> None:
    """Raise ParameterError if `count` processes cannot train together here."""
    if count > 1 and one:
        reason, most = one, 1
    elif count > batch_size:
        reason, most = f"train.batch_size is {batch_size}", batch_size
    elif gpus and count > gpus:
        reason, most = f"each process needs its own GPU, of which there are {gpus}", gpus
    else:
        return
    raise ParameterError(f"params.yaml: train.processes is {count}, but {reason}; set it to at most {most}")
