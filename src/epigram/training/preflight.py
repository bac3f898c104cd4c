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
from epigram.models.predict import TEXT_F1, TOKEN_F1, ScoredLabels
from epigram.models.recipe import ENCODERS, Recipe, parse_part, settings_of
from epigram.models.registry import recipe_of
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.text.settings import View
from epigram.training.config import configure

VOCABULARY, LENGTH, MASK = 16, 16, 4
PREFIX = (2, 5, MASK, 6, MASK, 7)  # [CLS] and a prompt; as in the templates, a colon follows the last mask
FOLDER = Path("pretrained")  # never read: it only marks that there is one


def check_systems(
    views: Mapping[str, View],
    systems: Mapping[str, System],
    train: Mapping[str, Any],
    *,
    multi: bool = False,
    tokens: bool = True,
) -> None:
    """Raise ParameterError for an unknown system, an unknown setting, and parts that do not fit together.

    The arguments are these sections of params.yaml. `multi`: texts of the data may have several labels. `tokens`: the
    data have token labels. A checkpoint is checked by its folder, without loading it. Raises InputMissingError or
    DataError if that folder is incomplete or damaged.
    """
    for name, system in systems.items():
        recipe = recipe_of(name, system, train)
        config = configure(name, recipe, train)
        context = placeholder_spec(views[system.view], multi=multi, tokens=tokens)
        model = build_placeholder(recipe, context, f"systems.{name}")
        if recipe.by_gradient:
            _check_stop_on(name, system, train, recipe, config.stop_on, model, context)


def _check_stop_on(
    name: str,
    system: System,
    train: Mapping[str, Any],
    recipe: Recipe,
    stop_on: ScoredLabels,
    model: nn.Module,
    context: DataSpec,
) -> None:
    """Raise ParameterError for a system that cannot be selected by the score `stop_on`."""
    own, more = f"systems.{name}.train.stop_on", ""
    if stop_on in TEXT_F1 and context.multi:
        reason = "texts may have several labels"
    elif stop_on in TEXT_F1 and not context.token_labels:
        reason = "the data have no token labels, so that no text label is the default"
    elif stop_on in TOKEN_F1 and not labels_tokens(model, context):
        reason = f"the head of systems.{name}, {recipe.head['kind']}, labels no tokens"
        more = ", or use a head that labels tokens, such as tagger"
    else:
        return
    sections = {own: system.train, "train.stop_on": train}
    key = next((name for name, section in sections.items() if "stop_on" in section), f"{own} (from the recipe)")
    raise ParameterError(f"params.yaml: {key} is {stop_on!r}, but {reason}; set {own} to sentence{more}")


def is_trainable(recipe: Recipe, view: View, *, multi: bool, tokens: bool) -> bool:
    """Return whether a system can be trained on such data, read by `view`."""
    try:
        build_placeholder(recipe, placeholder_spec(view, multi=multi, tokens=tokens), recipe.name)
    except ParameterError:
        return False
    return True


def placeholder_spec(view: View, *, multi: bool, tokens: bool) -> DataSpec:
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
        prefix_ids=PREFIX if view.prompt else (),
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
