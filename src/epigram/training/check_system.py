"""Check of one system: its parts fit together, and each of its settings in params.yaml has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from epigram.core import effects
from epigram.core.errors import ParameterError
from epigram.models.predict import TEXT_F1, TOKEN_F1, ScoredLabels
from epigram.models.recipe import ENCODERS, HEADS, Recipe, parse_part
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import recipe_of
from epigram.training.config import TrainingConfig, configure


def check_system(name: str, system: System, train: Mapping[str, Any], context: DataSpec) -> list[str]:
    """Check the system `name` of params.yaml on the data that `context` describes; `train` is the run's section.

    Returns one warning per reason why settings that systems share, in `train` or in the view, have no effect in this
    one.
    Raises ParameterError for an unknown system, an unknown setting, parts that do not fit together, and a setting of
    the system's own without effect.
    """
    recipe = recipe_of(name, system, train, checkpoint=context.checkpoint)
    recipe.check(context, f"systems.{name}")
    config = configure(name, recipe, train)
    unused = unused_settings(recipe, config, context)
    if "train.stop_on" not in unused:
        _check_stop_on(name, system, train, recipe, config.stop_on, context)
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


def unused_settings(recipe: Recipe, config: TrainingConfig, context: DataSpec) -> dict[str, str]:
    """Return the settings that change neither the model nor its training, such as `encoder.site`: key → reason."""
    found = _unused_by_kind(recipe, config)
    if not recipe.has_encoder:
        return found
    parts = {"encoder": parse_part(ENCODERS, recipe.encoder, ""), "head": parse_part(HEADS, recipe.head, "")}
    sections = {**parts, "data": context}
    if recipe.by_gradient:
        found = effects.unused(config, "train", sections) | found
    for path, settings in parts.items():
        found |= effects.unused(settings, path, sections)
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
    context: DataSpec,
) -> None:
    """Raise ParameterError for a system that cannot be selected by the score `stop_on`."""
    own, more = f"systems.{name}.train.stop_on", ""
    if stop_on in TEXT_F1 and context.multi:
        reason = "texts may have several labels"
    elif stop_on in TEXT_F1 and not context.token_labels:
        reason = "the data have no token labels, so that no text label is the default"
    elif stop_on in TOKEN_F1 and not recipe.labels_tokens():
        reason = f"the head of systems.{name}, {recipe.head['kind']}, labels no tokens"
        more = ", or use a head that labels tokens, such as tagger"
    else:
        return
    sections = {own: system.train, "train.stop_on": train}
    key = next((name for name, section in sections.items() if "stop_on" in section), f"{own} (from the recipe)")
    raise ParameterError(f"params.yaml: {key} is {stop_on!r}, but {reason}; set {own} to sentence{more}")
