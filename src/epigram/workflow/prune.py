"""Pruning of a system: layers that the depth controller finds unnecessary are dropped from the model of every seed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from epigram.core.files import atomic_folder, read_json
from epigram.evaluation.records.pruning_record import PruningRecord, SeedPruning
from epigram.evaluation.settings import MetricSetting
from epigram.models.manifest import TrainingFacts
from epigram.pruning.settings import PruneSettings

STUDENT = "student.json"


def prune_system(
    name: str,
    settings: PruneSettings,
    metric: MetricSetting,
    seeds: Sequence[int],
    encoded: Path,
    models: Path,
    out: Path,
    *,
    state: Path,
) -> None:
    """Prune the model of every seed in `models` and write `out` atomically.

    `out` has the final model of every seed (the trained one if no layer was dropped), pruning.json, and student.json if
    the system has a teacher. The folder `state` keeps finished seeds until all are finished.
    """
    settings.check()
    if unpruned := unpruned_records(models, seeds, settings):
        _write(out, unpruned, models, models / STUDENT)
    else:
        _prune_models(name, settings, metric, seeds, encoded, models, out, state)


def unpruned_records(models: Path, seeds: Sequence[int], settings: PruneSettings) -> list[SeedPruning]:
    """Return the records of models that stay as they are by the facts in their manifests, without PyTorch.

    They were fitted in closed form or have fewer than two layers. The result is empty if a model has to be loaded.
    """
    records = []
    for seed in seeds:
        facts = TrainingFacts.read(models / f"seed-{seed}")
        reason = settings.obstacle(facts.depth_full, facts.by_gradient)
        if reason is None or (facts.by_gradient and facts.depth_full > 1):  # training may have dropped layers
            return []
        depth = facts.depth_full or None
        record = SeedPruning(seed=seed, layered=depth is not None, reason=reason, depth_full=depth, depth=depth)
        records.append(record)
    return records


def _prune_models(
    name: str,
    settings: PruneSettings,
    metric: MetricSetting,
    seeds: Sequence[int],
    encoded: Path,
    models: Path,
    out: Path,
    state: Path,
) -> None:
    """Prune the models that an interrupted call has not finished, and write `out`."""
    from epigram.models.devices import default_device
    from epigram.pruning.prune_model import prune_model
    from epigram.text.dataset.encoded_dataset import View
    from epigram.training.distributed.resources import hardware
    from epigram.training.resume import read_finished, resume_folder

    view = View.load(encoded)
    manifests = [read_json(models / f"seed-{seed}" / "manifest.json") for seed in seeds]
    on = hardware(manifests[0]["training"]["precision"], default_device())
    with resume_folder(state, settings, metric, view.fingerprint, manifests, on) as folder:
        for seed in seeds:
            if read_finished(folder / f"seed-{seed}") is None:
                prune_model(name, view, models / f"seed-{seed}", settings, metric, folder / f"seed-{seed}")
        finished = [SeedPruning.from_dict(read_finished(folder / f"seed-{seed}")["about"]) for seed in seeds]
        _write(out, finished, folder, models / STUDENT)


def _write(out: Path, records: list[SeedPruning], models: Path, student: Path) -> None:
    """Write `out` atomically: the final `models`, their records, and the record of a `student`."""
    with atomic_folder(out) as whole:
        if student.exists():
            shutil.copyfile(student, whole / student.name)
        for record in records:
            shutil.copytree(models / f"seed-{record.seed}", whole / f"seed-{record.seed}")
        PruningRecord(seeds=records).write(whole)
