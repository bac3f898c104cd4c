"""Fit of a linear head on an encoder that was first trained on pairs of texts (SetFit: Tunstall et al., 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.training import fitters
from epigram.training.fitters import FitOptions, Fold, FoldResults, Trained, closed_form
from epigram.training.fitters.frozen_classifier import choose_head, encode, make_problem
from epigram.training.frozen.known_encodings import Encodings
from epigram.training.loop.plan import WHOLE
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.contrastive import Contrastive
from epigram.training.resume import mark_finished, read_finished


@fitters.register("contrastive_classifier")
def fit_model(model: NeuralClassifier, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Train the encoder for all planned steps, then fit the head on the CPU; dev or the folds choose its settings.

    With checkpoints, the training resumes from the latest one.
    """
    _train_encoder(model, train, options)
    problem = make_problem(model, train, dev, options, Encodings.of(encode, model, train, dev))
    problem.install(model, problem.choose([problem]) if options.choice is None else options.choice)
    return replace(closed_form(model, dev, options.metric), depth=model.depth)


@fitters.register_on_folds("contrastive_classifier")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Train an encoder for each fold, and choose the head's settings by the loss on all held-out texts together."""
    return choose_head([_fold_problem(fold) for fold in folds])


def _fold_problem(fold: Fold) -> Any:
    """Return the problem of a fold's head, with the encodings from disk if they are kept there."""
    model, train, dev = fold.load()
    if fold.folder is not None and read_finished(fold.folder) is not None:
        return make_problem(model, train, dev, fold.options, Encodings.read(fold.folder))
    _train_encoder(model, train, fold.options)
    encodings = Encodings.of(encode, model, train, dev)
    if fold.folder is not None and fold.options.checkpoints is not None:
        encodings.write(fold.folder)
        mark_finished(fold.folder, fold.options.checkpoints)
    return make_problem(model, train, dev, fold.options, encodings)


def _train_encoder(model: NeuralClassifier, train: TextBatches, options: FitOptions) -> None:
    """Train the encoder on pairs of `train`."""
    objective = Contrastive(train, options.config)
    trainer = Trainer(
        model,
        objective,
        seed=options.seed,
        report=options.report,
        checkpoints=options.checkpoints,
        plan=WHOLE,
    )
    trainer.run()
