"""Pruning of the model of one seed, from the trained model to the saved folder."""

from __future__ import annotations

import copy
import shutil
from dataclasses import asdict
from pathlib import Path

import torch

from epigram.evaluation.metrics.primary import PrimaryMetric, text_metric
from epigram.evaluation.settings import MetricSetting
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.devices import default_device
from epigram.models.manifest import PROVENANCE, TrainingFacts, parameters_hash, read_provenance
from epigram.models.serialization import Saved, load, save_changed
from epigram.pruning.depth import PruningResult, prune
from epigram.pruning.settings import PruneSettings
from epigram.pruning.tradeoff import seed_record
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Printer
from epigram.training.resume import mark_finished
from epigram.training.tuning import tune


def prune_model(name: str, view: View, folder: Path, settings: PruneSettings, metric: MetricSetting, out: Path) -> None:
    """Prune the model of one seed in `folder`, resuming from its last checkpoint, and write the final model to `out`.

    The model of a student stays as it is.
    """
    saved, facts = load(folder), TrainingFacts.read(folder)
    config = TrainingConfig(**facts.training)
    torch.set_num_threads(int(config.threads))  # the number of threads that trained the model
    torch.manual_seed(facts.seed)
    printer, checkpoints = Printer(f"{name} seed {facts.seed}"), Checkpoints(out.with_name(f"{out.name}-steps"))
    device = default_device()
    train = batches_of(view, "train", saved.frame, device, token_supervision=(config.token_supervision, facts.seed))
    dev = None if view.folds else batches_of(view, "dev", saved.frame, device)
    length, primary = (dev or train).median_length, text_metric(metric, view)
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
            seed=facts.seed,
            metric=primary,
            by_gradient=facts.by_gradient,
            layer_scores=facts.layer_scores,
            report=printer,
            checkpoints=checkpoints,
        )
    _write(saved, pruned, view, config, settings, primary, out)
    printer.close(f"{name} seed {facts.seed}: {pruned.reason}")
    mark_finished(out, checkpoints, asdict(seed_record(saved, pruned, facts, length)))


def _write(
    saved: Saved,
    pruned: PruningResult,
    view: View,
    config: TrainingConfig,
    settings: PruneSettings,
    metric: PrimaryMetric,
    out: Path,
) -> None:
    if not pruned.accepted:
        shutil.copytree(saved.folder, out)
        return
    trained = read_provenance(saved.folder)
    parameters = parameters_hash(trained=trained.get("parameters"), prune=vars(settings))
    provenance = {**trained, "data": view.fingerprint, "parameters": parameters}
    if view.folds:  # no rows to tune on: the shallower model keeps what the folds chose, and their predictions
        thresholds = saved.thresholds if view.task == "multi" else None
        save_changed(out, saved, pruned.model, {PROVENANCE: provenance}, thresholds)
        return
    thresholds = tune(pruned.model, view, saved.frame, config.precision, per_label=metric.per_label)
    facts = {"dev_accuracy": pruned.dev_accuracy, PROVENANCE: provenance}
    save_changed(out, saved, pruned.model, facts, thresholds)
