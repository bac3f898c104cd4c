"""train: train one model of a system per seed.

python -m epigram.stages.train SYSTEM ENCODED PRETRAINED OUT

Under torchrun the processes train in parallel, and rank 0 writes. Finished seeds and checkpoints are kept under
.epigram/state until all seeds are finished, so that an interrupted run resumes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.display import echo
from epigram.core.errors import ParameterError, arguments, handle_errors
from epigram.core.files import atomic_folder, sha256
from epigram.core.settings import Params
from epigram.core.stage_process import run_stage
from epigram.models.settings import System

if TYPE_CHECKING:
    from epigram.models.recipe import Recipe
    from epigram.text.encoded_dataset import View
    from epigram.training.config import TrainingConfig

PARAMS = ("seeds", "train", "systems.{key}")


def train_seed(
    name: str, recipe: Recipe, config: TrainingConfig, view: View, pretrained: Path | None, seed: int, out: Path
) -> None:
    """Train one seed, resuming from its last checkpoint, and write its folder.

    If train has folds, a cross-validation comes first, and the model is trained on all of train as it chooses.
    """
    import numpy as np

    from epigram.inference.dataset_batches import template_of
    from epigram.training import parallel
    from epigram.training.checkpoint import Checkpoints, mark_finished
    from epigram.training.cross_validation import cross_validate
    from epigram.training.progress import Printer
    from epigram.training.save_trained import Origin, Tuned, save_trained
    from epigram.training.train_system import train_system
    from epigram.training.tuning import tune, tune_by

    label, path = f"{name} seed {seed}", f"systems.{name}"
    folds = None
    if view.folds:
        folds = cross_validate(
            recipe,
            config,
            view,
            seed=seed,
            path=path,
            pretrained=pretrained,
            reports=lambda fold: Printer(f"{label} {fold}"),
            state=out,
        )
    printer, checkpoints = Printer(label), Checkpoints(out.with_name(f"{out.name}-steps"))
    trained = train_system(
        recipe,
        config,
        view,
        seed=seed,
        path=path,
        pretrained=pretrained,
        report=None if parallel.rank() else printer,
        checkpoints=checkpoints,
        choice=folds and folds.choice,
    )
    if parallel.rank():
        return
    frame = template_of(view, config.max_length, trained.model)
    if folds is None:
        thresholds = tune(trained.model, view, frame, config.precision)
        tuned = Tuned(score=trained.dev_accuracy, thresholds=thresholds, history=trained.history)
    else:
        labels = np.asarray(view.split("train").labels)
        out_of_fold, thresholds = tune_by(trained.model, folds.predicted, labels)
        tuned = Tuned(
            score=folds.predicted.score(labels),
            thresholds=thresholds,
            history=folds.history,
            out_of_fold=out_of_fold.logits,
        )
    origin = Origin(recipe=recipe, config=config, view=view, seed=seed, pretrained=pretrained)
    save_trained(out, trained, tuned, frame, origin)
    mark_finished(out, checkpoints)
    held_out = f"{view.folds} folds" if view.folds else "dev"
    printer.close(f"{label}: {held_out} {100 * tuned.score:.1f} at epoch {trained.epoch}")


@handle_errors
def main() -> None:
    """Read the settings and train every seed."""
    import torch

    from epigram.inference.dataset_batches import count_truncated, data_spec_of, template_of
    from epigram.models.registry import recipe_of
    from epigram.nn.pretrained.warm_start import find_pretrained
    from epigram.text.encoded_dataset import View
    from epigram.training import parallel
    from epigram.training.check_system import check_system
    from epigram.training.checkpoint import read_finished, resume_folder
    from epigram.training.config import configure
    from epigram.training.threads import resolve_threads

    name, encoded, pretrained, out = arguments("SYSTEM", "ENCODED", "PRETRAINED", "OUT")
    params = Params.read(PARAMS, key=name)
    seeds, shared = params.seeds, params.section("train", dict[str, Any])
    system, view = params.entry("systems", System), View.load(Path(encoded))
    recipe = recipe_of(name, system, shared, checkpoint=view.checkpoint)
    config = resolve_threads(configure(name, recipe, shared), recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    start = find_pretrained(Path(pretrained), view.tokenizer_json)
    for warning in check_system(name, system, shared, data_spec_of(view, config.max_length, start)):
        echo(f"{name}: {warning}")
    frame = template_of(view, config.max_length)
    if truncated := count_truncated(view, frame, "train"):
        echo(f"{name}: {truncated:,} training texts are truncated to {frame.max_length} tokens (train.max_length)")
    facts = recipe, config, view.fingerprint, start and sha256(start / "encoder.safetensors")
    with parallel.process_group(), resume_folder("train", name, *facts) as folder:
        if view.folds and parallel.processes() > 1:
            raise ParameterError("train has folds, which are trained in one process; start without torchrun")
        for seed in seeds:
            if read_finished(folder / f"seed-{seed}") is None:
                train_seed(name, recipe, config, view, start, seed, folder / f"seed-{seed}")
        if parallel.rank() == 0:
            with atomic_folder(Path(out)) as whole:
                for seed in seeds:
                    shutil.copytree(folder / f"seed-{seed}", whole / f"seed-{seed}")


if __name__ == "__main__":
    run_stage(main)
