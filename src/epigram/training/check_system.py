"""Check of one system: its parts fit together, and each of its settings in params.yaml has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from epigram.core.errors import ParameterError
from epigram.models.predict import TEXT_F1, TOKEN_F1, ScoredLabels
from epigram.models.recipe import ENCODERS, HEADS, Recipe, parse_part, settings_of
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.recipes.listing import labels_tokens
from epigram.recipes.registry import recipe_of
from epigram.training.config import TrainingConfig, configure
from epigram.training.frozen.fitted_head import not_fitted

VOCABULARY, LENGTH, WORD, MASK = 16, 16, 5, 4  # sizes and token ids of placeholders


def check_system(name: str, system: System, train: Mapping[str, Any], context: DataSpec) -> list[str]:
    """Check the system `name` of params.yaml on the data that `context` describes; `train` is the run's section.

    Returns one warning per reason why settings that systems share, in `train` or in the view, have no effect in this
    one.
    Raises ParameterError for an unknown system, an unknown setting, parts that do not fit together, and a setting of
    the system's own without effect.
    """
    recipe = recipe_of(name, system, train, checkpoint=context.checkpoint)
    config, context = configure(name, recipe, train), small_spec(context)
    model: Any = build_placeholder(recipe, context, f"systems.{name}")
    unused = unused_settings(recipe, config, context, model)
    if "train.stop_on" not in unused:
        _check_stop_on(name, system, train, recipe, config.stop_on, model, context)
    _reject_unused(name, system, unused)
    shared = {key: reason for key, reason in unused.items() if _is_set({"train": train}, key)}
    kind = recipe.encoder["kind"] if recipe.has_encoder else recipe.kind
    if context.pretrained is not None and kind != "pretrained":
        shared[f"views.{system.view}.pretrain"] = f"{kind} does not start from pretrained weights"
    return _untrained(recipe, system.view, context) + [
        f"params.yaml: no effect: {', '.join(key for key in shared if shared[key] == reason)} ({reason})"
        for reason in dict.fromkeys(shared.values())
    ]


def _untrained(recipe: Recipe, view: str, context: DataSpec) -> list[str]:
    """Return a warning if the encoder has random weights and keeps them."""
    pretrained = recipe.encoder.get("kind") in ("pretrained", "sentence_encoder", "static_embedding")
    starts = pretrained and (context.checkpoint or context.pretrained)
    if recipe.by_gradient or not recipe.has_encoder or starts:
        return []
    return [f"params.yaml: the encoder is not trained and has random weights; set views.{view}.checkpoint"]


def small_spec(context: DataSpec) -> DataSpec:
    """Return `context` with a small vocabulary and maximum length, and a prompt with as many masks."""
    prefix, suffix = (
        tuple(MASK if token == context.mask_id else WORD for token in ids)
        for ids in (context.prefix_ids, context.suffix_ids)
    )
    return replace(
        context,
        vocabulary=VOCABULARY,
        max_length=LENGTH + len(prefix) + len(suffix),
        unk_id=1,
        mask_id=None if context.mask_id is None else MASK,
        prefix_ids=prefix,
        suffix_ids=suffix,
        pos_weight=None if context.pos_weight is None else torch.ones(VOCABULARY),
        vectors=None,
    )


def build_placeholder(recipe: Recipe, context: DataSpec, path: str) -> nn.Module:
    """Return the model, with a small `sketch` instead of a pretrained encoder.

    Raises the same errors as `Recipe.build`.
    """
    if not recipe.has_encoder:
        return recipe.build(context, path)
    encoder = parse_part(ENCODERS, recipe.encoder, f"{path}.encoder")
    if hasattr(encoder, "sketch"):
        try:
            sketch = encoder.sketch(context)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path}: {error}") from None
        recipe, context = replace(recipe, encoder=settings_of(sketch)), replace(context, checkpoint=None)
    return recipe.build(context, path)


def unused_settings(recipe: Recipe, config: TrainingConfig, context: DataSpec, model: Any) -> dict[str, str]:
    """Return the settings that change neither the `model` nor its training, such as `encoder.site`: key → reason.

    An encoder or a head has a method `unused` if one of its settings depends on another one or on the data, and a head
    has `unused_in_loss` if its loss ignores a setting of the loss of text labels.
    """
    found = _unused_by_kind(recipe, config)
    if not recipe.has_encoder:
        return found
    encoder, head = parse_part(ENCODERS, recipe.encoder, ""), parse_part(HEADS, recipe.head, "")
    if recipe.by_gradient:
        found = _unused_in_training(config, context, head) | found
        if not len(model.encoder.blocks):
            found["train.layer_decay"] = f"the encoder {encoder.kind} has no layers with rates of their own"
    if hasattr(encoder, "unused"):
        found |= {f"encoder.{name}": reason for name, reason in encoder.unused(context).items()}
    if hasattr(head, "unused"):
        found |= {f"head.{name}": reason for name, reason in head.unused(context, model.encoder).items()}
    return found


def _unused_by_kind(recipe: Recipe, config: TrainingConfig) -> dict[str, str]:
    """Return the settings that only have an effect on other kinds of models."""
    used = recipe.train_settings
    if used is None:
        return {}
    names = [f"train.{field.name}" for field in fields(config) if field.name not in used]
    names += ["head.dropout"] if recipe.by_gradient else ["head.dropout", "encoder.small.dropout"]
    names += ["train.schedule"] if config.schedule == "plateau" else []  # which needs evaluations
    return dict.fromkeys(names, recipe.training)


def _unused_in_training(config: TrainingConfig, context: DataSpec, head: Any) -> dict[str, str]:
    found = {f"train.{name}": reason for name, reason in config.unused().items()}
    if reason := not_fitted(head):
        found["train.fitted_head"] = reason
    if not context.token_labels:
        found["train.token_supervision"] = "the data have no token labels"
    elif not getattr(head, "learns_tokens", False):
        found["train.token_supervision"] = f"the head {head.kind} does not learn from token labels"
    if hasattr(head, "unused_in_loss"):
        found |= {f"train.{name}": reason for name, reason in head.unused_in_loss(context).items()}
    return found


def _reject_unused(name: str, system: System, unused: Mapping[str, str]) -> None:
    own = {"encoder": system.encoder, "head": system.head, "train": system.train}
    lines = [
        f"params.yaml: systems.{name}.{key} has no effect, because {reason}; remove it"
        for key, reason in unused.items()
        if _is_set(own, key)
    ]
    if lines:
        raise ParameterError("\n".join(lines))


def _is_set(sections: Mapping[str, Any], key: str) -> bool:
    """Return whether `sections` has a value at the path `key`, such as encoder.small.heads."""
    value: Any = sections
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


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
