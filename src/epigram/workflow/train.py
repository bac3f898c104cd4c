"""Training of one model of a system per seed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epigram.core.files import atomic_folder
from epigram.evaluation.settings import MetricSetting
from epigram.inference.predictors.dataset_batches import count_truncated, template_of
from epigram.models.devices import default_device
from epigram.models.settings import System
from epigram.process.display import echo
from epigram.training.check_system import check_student, check_system
from epigram.training.distributed import parallel
from epigram.training.distributed.resources import hardware, has_unused_gpu
from epigram.training.resume import read_finished, resume_folder
from epigram.training.system_setup import ModelSetup, SystemSetup, read_setup
from epigram.training.teacher import Teacher
from epigram.training.train_model import train_model


def checked_setup(
    name: str, system: System, shared: Mapping[str, Any], metric: MetricSetting, encoded: Path, pretrained: Path
) -> tuple[SystemSetup, list[str]]:
    """Return the setup of the trainings of a system, and one warning per reason why shared settings have no effect.

    `shared` is the section `train` of params.yaml. Raises ParameterError for parts that do not fit together, and for a
    setting of the system's own without effect.
    """
    setup = read_setup(name, system, shared, metric, encoded, pretrained)
    view, data = setup.view, setup.data
    texts = None if view.unlabelled is None else str(view.unlabelled["file"])
    warnings = check_system(name, system, shared, data)
    return setup, warnings + check_student(name, system, shared, data, texts, words_only=view.tokens_only)


def train_system(
    system: System, setup: SystemSetup, seeds: Sequence[int], out: Path, *, warnings: Sequence[str], state: Path
) -> None:
    """Train one model per seed, with all processes of the group, and write `out` atomically.

    The folder `state` keeps finished seeds and checkpoints until all seeds are finished, so that an interrupted call
    resumes. A system with a teacher learns from the probabilities of this saved model; `out` then has student.json.
    """
    teacher = None if system.teacher is None else Teacher.load(setup.name, system, setup.view)
    if parallel.rank() == 0:
        _print_notes(setup, warnings)
    with resume_folder(state, setup.facts, *(teacher.facts if teacher else ())) as progress:
        folders = {seed: progress / f"seed-{seed}" for seed in seeds}
        unfinished = parallel.from_first(lambda: [each for each in seeds if read_finished(folders[each]) is None])
        targets = teacher.targets() if teacher and unfinished else None
        for seed in unfinished:
            train_model(ModelSetup(**vars(setup), seed=seed, teacher=teacher), folders[seed], targets)
        if parallel.rank() == 0:
            with atomic_folder(out) as whole:
                for seed in seeds:
                    shutil.copytree(folders[seed], whole / f"seed-{seed}")
                if teacher:
                    teacher.record.write(whole)


def _print_notes(setup: SystemSetup, warnings: Sequence[str]) -> None:
    name = setup.name
    if setup.recipe.by_gradient:
        on = hardware(setup.config.precision, default_device())
        echo(f"{name}: device {on['device']}, {on['precision']} products, PyTorch {on['torch']}")
    if setup.recipe.has_encoder and has_unused_gpu():
        echo(f"{name}: warning: the machine has a GPU, but PyTorch is a CPU build; see epigram doctor")
    for warning in warnings:
        echo(f"{name}: {warning}")
    frame = template_of(setup.view, setup.config.max_length)
    if truncated := count_truncated(setup.view, frame, "train"):
        echo(f"{name}: {truncated:,} training texts are truncated to {frame.max_length} tokens (train.max_length)")
