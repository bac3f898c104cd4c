"""List of all systems with their tasks and numbers of parameters, found by building each model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from epigram.core.errors import ParameterError
from epigram.models.classifier import count_parameters
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES

MASK = 4
REFERENCE = DataSpec(
    vocabulary=5_000,
    classes=2,
    max_length=128,
    labels=("plain", "marked"),
    characters=100,
    mask_id=MASK,
    prefix_ids=(2, MASK, MASK),
    pos_weight=torch.ones(5_000),
)
TEXT_CONTEXTS = {
    "single": REFERENCE,
    "multi": replace(REFERENCE, multi=True, label_shares=torch.full((2,), 0.5)),
}
CONTEXTS = {**TEXT_CONTEXTS, "tokens": replace(REFERENCE, token_labels=("O", "X"))}
CAPTION = (
    f"parameters: for a vocabulary of {REFERENCE.vocabulary:,} tokens, {REFERENCE.classes} classes and a maximum "
    f"length of {REFERENCE.max_length} tokens; pretrained encoders: without a checkpoint"
)


@dataclass(frozen=True, kw_only=True)
class ListedSystem:
    """One registered system.

    `tasks` are some of single, multi and tokens. `parameters` is None if the number depends on the training data.
    """

    system: str
    tasks: tuple[str, ...]
    view: str
    parameters: int | None
    paper: str
    about: str


def list_systems() -> Iterator[ListedSystem]:
    """Yield every registered system, in the order of the registry."""
    torch.set_num_threads(1)  # models of this size gain nothing from more threads
    for recipe in RECIPES.values():
        contexts = CONTEXTS if recipe.labels_tokens() else TEXT_CONTEXTS
        built = {task: model for task, context in contexts.items() if (model := _build(recipe, context)) is not None}
        yield ListedSystem(
            system=recipe.name,
            tasks=tuple(built),
            view=recipe.view,
            parameters=None if recipe.kind == LinearSvmConfig.kind else count_parameters(next(iter(built.values()))),
            paper=recipe.paper,
            about=recipe.about,
        )


def _build(recipe: Recipe, context: DataSpec) -> nn.Module | None:
    """Build the model on the meta device; return None if the recipe refuses the task."""
    try:
        with torch.device("meta"):
            return recipe.build(context)
    except ParameterError:
        return None


def compact_number(number: int | None) -> str:
    """Return a number in short form, such as 1.2 M for 1,186,818."""
    if number is None:
        return "depends on data"
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if round(number / size, 1) >= 1:
            return f"{number / size:.1f} {unit}"
    return str(number)
