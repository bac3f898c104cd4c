"""Settings of a system: an entry of section `systems` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from epigram.core.config_types import Name, Share, Strict


@dataclass(frozen=True, kw_only=True)
class System(Strict):
    """A system of a run: a recipe, and this run's changes to it."""

    section: ClassVar[str] = "systems"

    view: Name
    recipe: str | None = None  # default: the name of the system
    preset: Literal["paper"] | None = None  # paper: the settings that the system's paper states
    model: dict[str, Any] = field(default_factory=dict)
    encoder: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Student(System):
    """A model that learns from the ensemble: an entry of section `students`, with the settings of a system."""

    section: ClassVar[str] = "students"

    label_weight: Share = 0.5  # of a training text's label beside the teacher's probabilities, if train has folds
