"""Training of the model of one seed, from the cross-validation to the saved folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from epigram.inference.predictors.dataset_batches import template_of
from epigram.models.predict import Array
from epigram.models.text_template import TextTemplate
from epigram.training.cross_validation import CrossValidation, cross_validate
from epigram.training.distributed import parallel
from epigram.training.fit_system import fit_system
from epigram.training.fitters import Trained
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.plan import WHOLE
from epigram.training.loop.progress import Printer
from epigram.training.resume import mark_finished
from epigram.training.tuning import cross_calibrated, tune, tune_by
from epigram.training.write_model import Origin, Tuned, write_model


def train_model(name: str, origin: Origin, out: Path, targets: Array | None = None) -> None:
    """Train the model of one seed, resuming from its last checkpoint, and write its folder.

    `name` is that of a system in params.yaml. If train has folds, a cross-validation comes first, and the model is
    trained on all of train as it chooses. A student learns the probabilities `targets` (N + M, C) of the N training
    texts and of the M texts without labels. If train has folds, it is trained for all planned steps: the
    cross-validation learns labels alone, because the teacher has learned the labels of the held-out fold, and it would
    end too early.
    """
    view, label = origin.view, f"{name} seed {origin.seed}"
    config = origin.config if targets is None else origin.config.for_student()
    common: dict[str, Any] = {"seed": origin.seed, "path": f"systems.{name}", "pretrained": origin.pretrained}
    folds = choice = None
    if view.folds:
        folds = cross_validate(
            origin.recipe, config, view, reports=lambda fold: Printer(f"{label} {fold}"), state=out, **common
        )
        choice = folds.choice if targets is None else WHOLE
    printer, checkpoints = Printer(label), Checkpoints(out.with_name(f"{out.name}-steps"))
    trained = fit_system(
        origin.recipe,
        config,
        view,
        report=None if parallel.rank() else printer,
        checkpoints=checkpoints,
        choice=choice,
        targets=targets,
        **common,
    )
    if parallel.rank():
        return
    frame = template_of(view, config.max_length, trained.model)
    tuned = _tuned(trained, folds, origin, frame)
    write_model(out, trained, tuned, frame, origin)
    mark_finished(out, checkpoints)
    held_out = f"{view.folds} folds" if view.folds else "dev"
    printer.close(f"{label}: {held_out} {100 * tuned.score:.1f} at epoch {trained.epoch}")


def _tuned(trained: Trained, folds: CrossValidation | None, origin: Origin, frame: TextTemplate) -> Tuned:
    """Set the temperature of the trained model, and return what else is tuned on dev or on the `folds`."""
    view = origin.view
    if folds is None:
        thresholds = tune(trained.model, view, frame, origin.config.precision)
        return Tuned(score=trained.dev_accuracy, thresholds=thresholds, history=trained.history)
    labels = np.asarray(view.split("train").labels)
    thresholds = tune_by(trained.model, folds.judged, labels)
    if origin.teacher is not None:  # what was tuned is of students of labels; what it learned is calibrated
        trained.model.temperature.fill_(1.0)
        thresholds = origin.teacher.thresholds()
    return Tuned(
        score=folds.predicted.score(labels),
        thresholds=thresholds,
        history=folds.history,
        out_of_fold=cross_calibrated(trained.model, folds.predicted, labels, folds.fold).logits,
    )
