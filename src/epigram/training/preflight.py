"""Check of every system of a run before anything runs: build each one with small placeholder sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from epigram.core.errors import ParameterError
from epigram.models.listing import labels_tokens
from epigram.models.recipe import ENCODERS, Recipe, parse_part, settings_of
from epigram.models.registry import recipe_of
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.text.settings import View
from epigram.training.config import configure

VOCABULARY, LENGTH, MASK, WORD = 16, 16, 4, 5
FOLDER = Path("pretrained")  # never read: it only marks that there is one


def check_systems(
    views: Mapping[str, View],
    systems: Mapping[str, System],
    train: Mapping[str, Any],
    *,
    masks: tuple[int, int] = (2, 0),
    multi: bool = False,
    tokens: bool = True,
) -> None:
    """Raise ParameterError for an unknown system, an unknown setting, and parts that do not fit together.

    The arguments are these sections of params.yaml. `masks`: how many masks the prompt has before and after the text.
    `multi`: texts of the data may have several labels. `tokens`: the data have token labels. A checkpoint is checked
    by its folder, without loading it. Raises InputMissingError or DataError if that folder is incomplete or damaged.
    """
    for name, system in systems.items():
        recipe = recipe_of(name, system, train)
        config = configure(name, recipe, train)
        context = placeholder_spec(views[system.view], masks=masks, multi=multi, tokens=tokens)
        model = build_placeholder(recipe, context, f"systems.{name}")
        if config.stop_on != "sentence" and recipe.by_gradient and not labels_tokens(model, context):
            _reject_stop_on(name, system, train, recipe)


def _reject_stop_on(name: str, system: System, train: Mapping[str, Any], recipe: Recipe) -> None:
    """Raise ParameterError for a system that is to be selected by token labels but predicts none."""
    own = f"systems.{name}.train.stop_on"
    sections = {own: system.train, "train.stop_on": train}
    key = next((name for name, section in sections.items() if "stop_on" in section), f"{own} (from the recipe)")
    raise ParameterError(
        f"params.yaml: {key} is {recipe.train['stop_on']!r}, but the head of systems.{name}, {recipe.head['kind']}, "
        f"labels no tokens; set {own} to sentence, or use a head that labels tokens, such as tagger"
    )


def is_trainable(recipe: Recipe, view: View, *, multi: bool, tokens: bool) -> bool:
    """Return whether a system can be trained on such data, read by `view`."""
    try:
        build_placeholder(recipe, placeholder_spec(view, multi=multi, tokens=tokens), recipe.name)
    except ParameterError:
        return False
    return True


def placeholder_spec(view: View, *, masks: tuple[int, int] = (2, 0), multi: bool, tokens: bool) -> DataSpec:
    """Return the context that `view` determines, with small placeholder sizes for what the encoded texts determine.

    Optional data of the encoded texts, such as part-of-speech weights, are assumed to exist.
    """
    return DataSpec(
        vocabulary=VOCABULARY,
        classes=2,
        max_length=LENGTH,
        labels=("no", "yes"),
        multi=multi,
        token_labels=("O", "no", "yes") if tokens else (),
        characters=4 if view.characters else 0,
        mask_id=MASK if view.prompt else None,
        prefix_ids=(2, *(WORD, MASK) * masks[0]) if view.prompt else (),  # [CLS] and the prompt
        suffix_ids=(WORD, MASK) * masks[1] if view.prompt else (),
        pos_weight=torch.ones(VOCABULARY),
        label_counts=torch.ones(2) if multi else None,
        checkpoint=view.checkpoint,
        pretrained=None if view.pretrain is None else FOLDER,
    )


def build_placeholder(recipe: Recipe, context: DataSpec, path: str) -> nn.Module:
    """Return the model, with a small `sketch` instead of a pretrained encoder.

    Raises the same errors as `Recipe.build`.
    """
    if not recipe.by_gradient:
        return recipe.build(context, path)
    encoder = parse_part(ENCODERS, recipe.encoder, f"{path}.encoder")
    if hasattr(encoder, "sketch"):
        try:
            sketch = encoder.sketch(context)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path}: {error}") from None
        recipe = replace(recipe, encoder=settings_of(sketch))
    return recipe.build(context, path)
