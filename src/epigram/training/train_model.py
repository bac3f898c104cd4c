"""Training of the model of one seed, from the cross-validation to the saved folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from epigram.evaluation.comparison.formats import score_text
from epigram.inference.predictors.dataset_batches import template_of
from epigram.models.predict import Array
from epigram.models.text_template import TextTemplate
from epigram.training.cross_validation import CrossValidation, cross_validate
from epigram.training.dev_score import DevScore, metric_score
from epigram.training.distributed import parallel
from epigram.training.fit_system import fit_system
from epigram.training.fitters import Trained
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.plan import WHOLE
from epigram.training.loop.progress import Printer
from epigram.training.resume import mark_finished
from epigram.training.system_setup import ModelSetup
from epigram.training.tuning import cross_calibrated, tune, tune_by
from epigram.training.write_model import Tuned, write_model


def train_model(setup: ModelSetup, out: Path, targets: Array | None = None) -> None:
    """Train the model of one seed, resuming from its last checkpoint, and write its folder.

    If train has folds, a cross-validation comes first, and the model is trained on all of train as it chooses. A
    student learns the probabilities `targets` (N + M, C) of the N training texts and of the M texts without labels. If
    train has folds, it is trained for all planned steps: the cross-validation learns labels alone, because the teacher
    has learned the labels of the held-out fold, and it would end too early.
    """
    view, label = setup.view, f"{setup.name} seed {setup.seed}"
    learned = setup if targets is None else replace(setup, config=setup.config.for_student())
    folds = choice = None
    if view.folds:
        folds = cross_validate(learned, reports=lambda fold: Printer(f"{label} {fold}"), state=out)
        choice = folds.choice if targets is None else WHOLE
    printer, checkpoints = Printer(label), Checkpoints(out.with_name(f"{out.name}-steps"))
    report = None if parallel.rank() else printer
    trained = fit_system(learned, report=report, checkpoints=checkpoints, choice=choice, targets=targets)
    if parallel.rank():
        return
    frame = template_of(view, setup.config.max_length, trained.model)
    tuned = _tuned(trained, folds, setup, frame)
    write_model(out, trained, tuned, frame, setup)
    mark_finished(out, checkpoints)
    held_out = f"{view.folds} folds" if view.folds else "dev"
    printer.close(f"{label}: {held_out} {_shown(trained, folds, setup)} at epoch {trained.epoch}")


def _shown(trained: Trained, folds: CrossValidation | None, setup: ModelSetup) -> str:
    """Return the held-out score: of the selected weights, or of the cross-validation by the metric."""
    if folds is None:
        return DevScore(setup.config.stop_on if trained.epoch else "sentence", setup.metric).text(trained.dev_score)
    labels = np.asarray(setup.view.split("train").labels)
    return score_text(setup.metric.name, metric_score(folds.predicted, labels, setup.metric))


def _tuned(trained: Trained, folds: CrossValidation | None, setup: ModelSetup, frame: TextTemplate) -> Tuned:
    """Set the temperature of the trained model, and return what else is tuned on dev or on the `folds`."""
    view = setup.view
    if folds is None:
        thresholds = tune(trained.model, view, frame, setup.config.precision, per_label=setup.metric.per_label)
        return Tuned(score=trained.dev_accuracy, thresholds=thresholds, history=trained.history)
    labels = np.asarray(view.split("train").labels)
    thresholds = tune_by(trained.model, folds.judged, labels, per_label=setup.metric.per_label)
    if setup.teacher is not None:  # the folds learned labels; the teacher's probabilities are calibrated already
        trained.model.temperature.fill_(1.0)
        thresholds = setup.teacher.thresholds()
    return Tuned(
        score=folds.predicted.score(labels),
        thresholds=thresholds,
        history=folds.history,
        out_of_fold=cross_calibrated(trained.model, folds.predicted, labels, folds.fold).logits,
        layer_scores=folds.layer_scores,
    )
