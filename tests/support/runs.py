"""Small trainings by labels of every system that are killed at a chosen batch and resumed.

python -m tests.support.runs FOLDER   resumes each training in FOLDER/SYSTEM/CASE and prints how it ended
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.models.batches import Rows, TextBatches
from epigram.recipes.registry import RECIPES
from epigram.training import cross_validation
from epigram.training.config import TrainingConfig
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from epigram.training.system_setup import ModelSetup
from tests.support.small_systems import build, recipe_of, texts_of

GRADIENT = sorted(name for name, recipe in RECIPES.items() if recipe.kind == "classifier")
BATCHES = 4  # per epoch


class KilledError(BaseException):
    """Raised in place of a kill of the process."""


def die_at_fold(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Kill the next cross-validation when it loads the fold at place `number`; return the names of loaded folds."""
    loaded, prepare = list[str](), cross_validation.prepare

    def counted(setup: ModelSetup) -> Any:
        loaded.append(setup.view.folder.name)
        if len(loaded) == number + 1:
            raise KilledError
        return prepare(setup)

    monkeypatch.setattr(cross_validation, "prepare", counted)
    return loaded


class Fatal(TextBatches):
    """Texts that kill the process at batch number `last`, counted from 0."""

    last = -1

    def gather(self, rows: Rows) -> Any:
        """Return the batch, or raise KilledError."""
        if self.last == 0:
            raise KilledError
        self.last -= 1
        return super().gather(rows)


class Always(Checkpoints):
    """Checkpoints after every step, written to disk before the next step."""

    @property
    def due(self) -> bool:
        """Return True."""
        return True


def trainer(name: str, folder: Path | None = None, *, rollbacks: int = 0, device: str = "cpu", **dies: int) -> Trainer:
    """Return a trainer: two epochs of 32 texts, two evaluations each, float32, the recipe's optimizer and schedule.

    `train` and `dev` give the batch of that split at which the process dies.
    """
    recipe = recipe_of(name)
    own = {key: value for key, value in RECIPES[name].train.items() if key in {"optimizer", "schedule", "stop_on"}}
    config = TrainingConfig(
        epochs=2,
        batch_size=32 // BATCHES,
        evaluations=2,
        patience=9,
        clip=1.0,
        rollbacks=rollbacks,
        precision="fp32",
        **own,
    )
    texts = {part: texts_of(recipe, seed=seed, device=device) for seed, part in enumerate(("train", "dev"))}
    for part, batch in dies.items():
        texts[part].__class__ = Fatal
        texts[part].last = batch  # type: ignore[attr-defined]
    checkpoints = Always(folder) if folder else None
    return Trainer(
        build(recipe).to(device), label_objective(texts["train"], texts["dev"], config), seed=3, checkpoints=checkpoints
    )


def ended(made: Trainer) -> dict[str, Any]:
    """Train to the end; return a bit-exact digest of weights and optimizer, the history, and the first step."""
    record = made.run()
    digest = hashlib.sha256()
    for key, value in made.model.state_dict().items():
        digest.update(key.encode() + np.ascontiguousarray(value.numpy()).tobytes())
    for index, moment in sorted(made.optimizer.state_dict()["state"].items()):
        for key, value in sorted(moment.items()):
            digest.update(f"{index} {key}".encode() + np.ascontiguousarray(value.numpy()).tobytes())
    return {"digest": digest.hexdigest(), "history": record.history, "epoch": record.epoch, "first": made.first_step}


def main(folder: Path) -> None:
    """Resume every training of `folder`."""
    torch.set_num_threads(1)
    found = sorted(path for path in folder.glob("*/*") if path.is_dir())
    print(json.dumps({f"{path.parent.name}/{path.name}": ended(trainer(path.parent.name, path)) for path in found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
