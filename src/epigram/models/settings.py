"""Settings of a system: an entry of section `systems` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from epigram.core.config_types import Name, Share, Strict, Unset

# Section `train`. `dvc exp run -S train.epochs=3` changes only keys that the file has; null: each system's own value.
SharedTraining = Annotated[dict[str, Any], Unset("epochs")]


@dataclass(frozen=True, kw_only=True)
class System(Strict):
    """A system of a run: a recipe, and this run's changes to it."""

    view: Name  # a key of `views`
    recipe: str | None = None  # default: the name of the system
    preset: Literal["paper"] | None = None  # paper: the settings that the system's paper states
    model: dict[str, Any] = field(default_factory=dict)  # overrides of a recipe that is not trained by gradient
    encoder: dict[str, Any] = field(default_factory=dict)  # overrides of the recipe's encoder
    head: dict[str, Any] = field(default_factory=dict)  # overrides of the recipe's head
    train: dict[str, Any] = field(default_factory=dict)  # overrides of the training settings
    prune: bool | None = None  # whether layers are dropped; null: as prune.enabled says, but never with a preset
    teacher: str | None = None  # saved model that a student learns from: data/local/FOLDER or runs/NAME/model
    label_weight: Share = 0.5  # weight of a training text's label; the teacher's probabilities have the rest
