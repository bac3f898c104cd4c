"""Fit of a classifier: gradient descent by the Trainer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from epigram.core.files import atomic_folder, write_tensors
from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier, count_parameters
from epigram.models.predict import Predicted, predict
from epigram.training import fitters
from epigram.training.checkpoint import mark_finished, read_finished
from epigram.training.objectives.label_objective import label_objective
from epigram.training.plan import Event, Plan, median_plan
from epigram.training.trained import FitOptions, Fold, FoldResults, Trained
from epigram.training.trainer import Trainer

LOGITS = "logits.safetensors"


@fitters.register("classifier")
def fit_model(model: Classifier, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Train the model and select the weights on `dev`, or train it by the plan of a cross-validation.

    With checkpoints, the training resumes from the latest one.
    """
    depth, size = model.depth, count_parameters(model)
    trainer = Trainer(
        model,
        label_objective(train, dev, options.config),
        seed=options.seed,
        rate=options.rate,
        report=options.report,
        checkpoints=options.checkpoints,
        plan=options.choice,
    )
    record = trainer.run()
    return Trained(
        model=model,
        rate=options.rate,
        dev_accuracy=record.accuracy,
        epoch=record.epoch,
        depth=depth,
        parameters=size,
        history=record.history,
        plan=trainer.plan_to_repeat(),
    )


@fitters.register_on_folds("classifier")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Train a model for each fold, and choose the plan with the median share of steps."""
    results = [_trained_fold(fold) for fold in folds]
    choice = median_plan([each.plan for each in results])
    history = next(each.history for each in results if each.plan == choice)
    return FoldResults(choice=choice, predictions=[each.predicted for each in results], history=history)


def _trained_fold(fold: Fold) -> _Result:
    """Return the result of one fold: the one that is kept on disk, if there is one."""
    if fold.folder is not None and (kept := read_finished(fold.folder)) is not None:
        return _Result.read(fold.folder, kept["about"])
    model, train, dev = fold.load()
    trained = fit_model(model, train, dev, fold.options)
    assert trained.plan is not None
    result = _Result(trained.plan, predict(model, dev, precision=fold.options.config.precision), trained.history)
    if fold.folder is not None and fold.options.checkpoints is not None:
        result.write(fold.folder)
        mark_finished(fold.folder, fold.options.checkpoints, result.about)
    return result


@dataclass(frozen=True)
class _Result:
    plan: Plan
    predicted: Predicted
    history: list[dict[str, float]]

    @property
    def about(self) -> dict[str, Any]:
        return {"plan": asdict(self.plan), "history": self.history, "multi": self.predicted.multi}

    def write(self, folder: Path) -> None:
        with atomic_folder(folder) as new:
            write_tensors(new / LOGITS, {"logits": torch.from_numpy(self.predicted.logits)})

    @classmethod
    def read(cls, folder: Path, about: dict[str, Any]) -> _Result:
        plan = about["plan"]
        events = tuple(Event(*event) for event in plan["events"])
        logits = load_file(folder / LOGITS)["logits"].numpy()
        return cls(
            Plan(plan["steps"], plan["total"], events), Predicted(logits, None, about["multi"]), about["history"]
        )
