"""Fit of a classifier: gradient descent by the Trainer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from epigram.core.files import atomic_folder, write_tensors
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier, count_parameters
from epigram.models.predict import Array, Predicted, gold_labels
from epigram.training import fitters
from epigram.training.fitters import FitOptions, Fold, FoldResults, Trained, choose_on_folds
from epigram.training.frozen.fitted_head import can_fit_head, fit_head
from epigram.training.frozen.probe import layer_votes
from epigram.training.linear.bags import as_bags
from epigram.training.loop.plan import Course, Event, Plan, median_plan, plan_of_folds
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from epigram.training.resume import mark_finished, read_finished

LOGITS, VOTES = "logits.safetensors", "votes"


@fitters.register("classifier")
def fit_model(model: NeuralClassifier, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Train the model and select the weights on `dev`, or train it by the plan of a cross-validation.

    With checkpoints, the training resumes from the latest one.
    """
    depth, size = model.depth, count_parameters(model)
    if options.config.fitted_head and can_fit_head(model, train):
        fit_head(model, train, options.config.class_weight, options.metric)
    with as_bags(model, train, dev, options.config) as texts:
        trainer = Trainer(
            model,
            label_objective(*texts, options.config, metric=options.metric, keeps_logits=options.keeps_logits),
            seed=options.seed,
            report=options.report,
            checkpoints=options.checkpoints,
            plan=options.choice,
        )
        record = trainer.run()
    return Trained(
        model=model,
        dev_accuracy=record.accuracy,
        dev_score=record.score[0],
        epoch=record.epoch,
        depth=depth,
        parameters=size,
        history=record.history,
        steps=trainer.position.step,
        plan=trainer.plan_to_repeat(),
        evaluated={step: logits.numpy() for step, logits in trainer.evaluated.items()},
    )


@fitters.register_on_folds("classifier")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Train a model for each fold, and choose the plan of the final training by their scores.

    The predictions of a fold are from the evaluation nearest to the plan that all other folds choose: the best of
    several evaluations of a few rows would score too high. They also tune the final model.
    """
    results = [_trained_fold(fold) for fold in folds]
    plans = [each.plan for each in results]
    found = choose_on_folds(results, lambda given: plan_of_folds([each.course for each in given]), _Result.at)
    votes = [each.votes for each in results if each.votes is not None]
    return replace(
        found,
        judged=found.predictions,
        history=results[plans.index(median_plan(plans))].history,
        votes=votes if len(votes) == len(results) else [],
    )


def _trained_fold(fold: Fold) -> _Result:
    """Return the result of one fold, from disk if it is kept there."""
    if fold.folder is not None and (kept := read_finished(fold.folder)) is not None:
        return _Result.read(fold.folder, kept["about"])
    model, train, dev = fold.load()
    trained = fit_model(model, train, dev, replace(fold.options, keeps_logits=True))
    assert trained.plan is not None
    votes = None
    if 1 < model.depth == trained.depth:
        classes = next(iter(trained.evaluated.values())).shape[1]
        votes = layer_votes(model, train, dev, classes, fold.options.config.precision)
    result = _Result(trained.plan, trained.history, trained.evaluated, multi=gold_labels(dev).ndim == 2, votes=votes)
    if fold.folder is not None and fold.options.checkpoints is not None:
        result.write(fold.folder)
        mark_finished(fold.folder, fold.options.checkpoints, result.about)
    return result


@dataclass(frozen=True)
class _Result:
    plan: Plan
    history: list[dict[str, float]]
    evaluated: Mapping[int, Array]  # logits by the step
    multi: bool  # a text may have several labels
    votes: Array | None = None  # logits (L, N, C) of classifiers on the layers

    @property
    def course(self) -> Course:
        """The scores of the evaluations."""
        return Course.of(self.plan, {int(line["step"]): line["dev"] for line in self.history})

    def at(self, plan: Plan) -> Predicted:
        """Return the predictions of the evaluation after the step that is nearest to the end of `plan`."""
        return Predicted(self.evaluated[self.course.nearest(plan.share)], None, self.multi)

    @property
    def about(self) -> dict[str, Any]:
        return {"plan": asdict(self.plan), "history": self.history, "multi": self.multi}

    def write(self, folder: Path) -> None:
        with atomic_folder(folder) as new:
            arrays = {str(step): logits for step, logits in self.evaluated.items()}
            arrays |= {} if self.votes is None else {VOTES: self.votes}
            write_tensors(new / LOGITS, {name: torch.from_numpy(array) for name, array in arrays.items()})

    @classmethod
    def read(cls, folder: Path, about: dict[str, Any]) -> _Result:
        plan = about["plan"]
        events = tuple(Event(*event) for event in plan["events"])
        arrays = {name: tensor.numpy() for name, tensor in load_file(folder / LOGITS).items()}
        votes = arrays.pop(VOTES, None)
        evaluated = {int(step): logits for step, logits in arrays.items()}
        return cls(Plan(plan["steps"], plan["total"], events), about["history"], evaluated, about["multi"], votes)
