"""Every system of a run, put together from stand-in sizes before anything runs."""

from __future__ import annotations

from dataclasses import replace

import torch

from pithy.errors import ParameterError
from pithy.layers.types import Context
from pithy.settings import Settings, View
from pithy.systems.recipe import ENCODERS, Recipe, part, settings_of
from pithy.systems.registry import recipe_of
from pithy.training.config import configure

VOCABULARY, MASK = 16, 4
PREFIX = (2, 5, MASK, 6, MASK)  # [CLS] and a prompt


def check(settings: Settings, *, multi: bool = False, tokens: bool = True) -> None:
    """Raise ParameterError for a system that does not exist, a setting that is not one, and parts that do not fit.

    `multi`: a text of the data may have several labels; `tokens`: their tokens have labels too. A checkpoint is judged
    by its folder, without being loaded; also raises InputMissingError and DataError for one that is not whole.
    """
    for name, system in settings.systems.items():
        recipe = recipe_of(name, system, settings.train)
        config = configure(name, recipe, settings.train)
        context = stand_in(settings.views[system.view], config.max_length, multi=multi, tokens=tokens)
        assemble(recipe, context, f"systems.{name}")
        if system.head and recipe.fitting != "gradient":
            kind = recipe.encoder["kind"]
            raise ParameterError(f"params.yaml: systems.{name}.head: {kind} is encoder and head in one: leave head out")


def suits(recipe: Recipe, view: View, *, multi: bool, tokens: bool) -> bool:
    """Whether a system can be trained on such data, read by `view`."""
    try:
        assemble(recipe, stand_in(view, 128, multi=multi, tokens=tokens), recipe.name)
    except ParameterError:
        return False
    return True


def stand_in(view: View, max_length: int, *, multi: bool, tokens: bool) -> Context:
    """What `view` fixes, with small sizes for what only the encoded texts tell, which is taken to be all there."""
    return Context(
        vocabulary=VOCABULARY,
        classes=2,
        max_length=max_length,
        labels=("no", "yes"),
        multi=multi,
        token_labels=("O", "no", "yes") if tokens else (),
        characters=4 if view.characters else 0,
        mask_id=MASK if view.prompt else None,
        prefix_ids=PREFIX if view.prompt else (),
        pos_weight=torch.ones(VOCABULARY),
        label_counts=torch.ones(2) if multi else None,
        checkpoint=view.checkpoint,
    )


def assemble(recipe: Recipe, context: Context, path: str) -> None:
    """Build the model, a pretrained encoder by its sketch, and forget it. Raises as `Recipe.build` does."""
    encoder = part(ENCODERS, recipe.encoder, f"{path}.encoder")
    if hasattr(encoder, "sketch"):
        try:
            sketch = encoder.sketch(context)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path}: {error}") from None
        recipe = replace(recipe, encoder=settings_of(ENCODERS, sketch))
    recipe.build(context, path)
