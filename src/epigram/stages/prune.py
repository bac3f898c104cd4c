"""prune: drop the layers that the depth controller finds unnecessary, and fine-tune.

python -m epigram.stages.prune SYSTEM ENCODED MODELS OUT

OUT contains the final model of every seed (the trained one if no layer was dropped), pruning.json, and student.json if
the system has a teacher. Finished seeds are kept under .epigram/state until all seeds are finished.
"""

from __future__ import annotations

import copy
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.files import atomic_folder, read_json
from epigram.core.settings import Params
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage
from epigram.pruning.settings import PruneSettings

if TYPE_CHECKING:
    from epigram.evaluation.records.pruning_record import SeedPruning
    from epigram.models.serialization import Saved
    from epigram.pruning.depth import PruningResult
    from epigram.text.dataset.encoded_dataset import View
    from epigram.training.config import TrainingConfig

STUDENT = "student.json"
PARAMS = ("seeds", "prune")


def prune_seed(name: str, view: View, folder: Path, settings: PruneSettings, out: Path) -> None:
    """Prune the model of one seed, resuming from its last checkpoint, and write the final model."""
    import torch

    from epigram.inference.predictors.dataset_batches import batches_of, default_device
    from epigram.models.manifest import TrainingFacts
    from epigram.models.serialization import load
    from epigram.pruning.depth import PruningResult, prune
    from epigram.pruning.tradeoff import seed_record
    from epigram.training.config import TrainingConfig
    from epigram.training.loop.checkpoints import Checkpoints
    from epigram.training.loop.progress import Printer
    from epigram.training.resume import mark_finished

    saved, facts = load(folder), TrainingFacts.read(folder)
    config = TrainingConfig(**facts.training)
    torch.set_num_threads(int(config.threads))  # the number of threads that trained the model
    torch.manual_seed(facts.seed)
    printer, checkpoints = Printer(f"{name} seed {facts.seed}"), Checkpoints(out.with_name(f"{out.name}-steps"))
    device = default_device()
    train = batches_of(view, "train", saved.frame, device, token_supervision=(config.token_supervision, facts.seed))
    dev = None if view.folds else batches_of(view, "dev", saved.frame, device)
    length = (dev or train).median_length
    if facts.taught:
        reason = "fine-tuning after dropping layers learns labels alone, not what the teacher taught"
        pruned = PruningResult(model=saved.model, reason=reason)
    else:
        pruned = prune(
            copy.deepcopy(saved.model).to(device),  # the loaded model stays on the CPU, for the FLOP counts
            train,
            dev,
            classes=len(saved.labels),
            settings=settings,
            config=config,
            rate=facts.rate,
            seed=facts.seed,
            by_gradient=facts.by_gradient,
            report=printer,
            checkpoints=checkpoints,
        )
    _write(saved, pruned, view, config, settings, out)
    printer.close(f"{name} seed {facts.seed}: {pruned.reason}")
    mark_finished(out, checkpoints, asdict(seed_record(saved, pruned, facts, length)))


def _write(
    saved: Saved, pruned: PruningResult, view: View, config: TrainingConfig, settings: PruneSettings, out: Path
) -> None:
    from epigram.models.manifest import PROVENANCE, parameters_hash, read_provenance
    from epigram.models.serialization import save_changed
    from epigram.training.tuning import tune

    if not pruned.accepted:
        shutil.copytree(saved.folder, out)
        return
    thresholds, trained = tune(pruned.model, view, saved.frame, config.precision), read_provenance(saved.folder)
    parameters = parameters_hash(trained=trained.get("parameters"), prune=vars(settings))
    provenance = {**trained, "data": view.fingerprint, "parameters": parameters}
    facts = {"dev_accuracy": pruned.dev_accuracy, PROVENANCE: provenance}
    save_changed(out, saved, pruned.model, facts, thresholds)


def unpruned_records(models: Path, seeds: list[int], settings: PruneSettings) -> list[SeedPruning]:
    """Return the records of models that stay as they are by the facts in their manifests, without PyTorch.

    They were fitted in closed form or have fewer than two layers. The result is empty if a model has to be loaded.
    """
    from epigram.evaluation.records.pruning_record import SeedPruning
    from epigram.models.manifest import TrainingFacts

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


def write(out: Path, records: list[SeedPruning], models: Path, student: Path) -> None:
    """Write `out` atomically: the final `models`, their records, and that of a `student`."""
    from epigram.evaluation.records.pruning_record import PruningRecord

    with atomic_folder(out) as whole:
        if student.exists():
            shutil.copyfile(student, whole / student.name)
        for record in records:
            shutil.copytree(models / f"seed-{record.seed}", whole / f"seed-{record.seed}")
        PruningRecord(seeds=records).write(whole)


def prune_seeds(name: str, encoded: Path, models: Path, settings: PruneSettings, seeds: list[int], out: Path) -> None:
    """Prune the model of every seed, without those that an interrupted run has finished, and write `out`."""
    from epigram.evaluation.records.pruning_record import SeedPruning
    from epigram.inference.predictors.dataset_batches import default_device
    from epigram.text.dataset.encoded_dataset import View
    from epigram.training.distributed.hardware import hardware
    from epigram.training.resume import read_finished, resume_folder

    view = View.load(encoded)
    manifests = [read_json(models / f"seed-{seed}" / "manifest.json") for seed in seeds]
    on = hardware(manifests[0]["training"]["precision"], default_device())
    with resume_folder("prune", name, settings, view.fingerprint, manifests, on) as folder:
        for seed in seeds:
            if read_finished(folder / f"seed-{seed}") is None:
                prune_seed(name, view, models / f"seed-{seed}", settings, folder / f"seed-{seed}")
        finished = [SeedPruning.from_dict(read_finished(folder / f"seed-{seed}")["about"]) for seed in seeds]
        write(out, finished, folder, models / STUDENT)


@handle_errors
def main() -> None:
    """Read the settings and prune the model of every seed."""
    name, encoded, models, out = arguments("SYSTEM", "ENCODED", "MODELS", "OUT")
    params = Params.read(PARAMS)
    seeds, settings = params.seeds, params.section("prune", PruneSettings)
    settings.check()
    if unpruned := unpruned_records(Path(models), seeds, settings):
        write(Path(out), unpruned, Path(models), Path(models) / STUDENT)
        return
    prune_seeds(name, Path(encoded), Path(models), settings, seeds, Path(out))


if __name__ == "__main__":
    run_stage(main)
