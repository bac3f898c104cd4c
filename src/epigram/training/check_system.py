"""Check of one system: its parts fit together, a student can learn, and each of its settings has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from epigram.core import effects
from epigram.core.errors import ParameterError
from epigram.models.recipe import ENCODERS, HEADS, Recipe, parse_part
from epigram.models.settings import System
from epigram.nn.layers.loss import LOSS_SETTINGS
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import recipe_of
from epigram.training.config import TEXT_F1, TOKEN_F1, ScoredLabels, TrainingConfig, configure


def check_student(
    name: str,
    system: System,
    train: Mapping[str, Any],
    context: DataSpec,
    texts: str | None,
    *,
    words_only: bool = False,
) -> list[str]:
    """Check what `check_system` does not: that the system can learn from its teacher, if it has one.

    `texts` is the file of texts without labels of its view. `words_only`: the data have labels of words alone. Returns
    a warning for each shared setting in `train` that has no effect on a student. Raises ParameterError for such a
    setting of the system's own, for data with labels of words, for a view without texts, and for a model or a head that
    cannot learn from probabilities.
    """
    path = f"systems.{name}"
    if system.teacher is None:
        if system.label_weight != System(view=system.view).label_weight:
            raise ParameterError(f"params.yaml: {path}.label_weight has no effect without a teacher; remove it")
        return []
    if words_only:
        raise ParameterError(
            f"params.yaml: {path} has a teacher of text labels, but the data set has only labels of words; remove it"
        )
    if texts is None:
        where = f"views.{system.view}.texts"
        raise ParameterError(f"params.yaml: {path} learns from texts without labels; set {where} to a file of texts")
    if reason := _obstacle(recipe_of(name, system, train, checkpoint=context.checkpoint), context):
        raise ParameterError(
            f"params.yaml: {path} cannot learn from probabilities, because {reason}; use a recipe such as fast_text, "
            "textcnn or transformer, or remove its teacher"
        )
    reasons = dict.fromkeys((*LOSS_SETTINGS, "fitted_head"), "a student learns from probabilities")
    reasons["processes"] = "a student is trained in one process"
    if own := [key for key in reasons if key in system.train]:
        raise ParameterError(f"params.yaml: {path}.train.{own[0]} has no effect, because {reasons[own[0]]}; remove it")
    return [f"params.yaml: no effect: train.{key} ({reason})" for key, reason in reasons.items() if key in train]


def _obstacle(recipe: Recipe, context: DataSpec) -> str:
    """Return why a system cannot learn from probabilities; empty if it can."""
    if recipe.kind != "classifier":
        return recipe.training
    head: Any = parse_part(HEADS, recipe.head, "")
    if context.multi and head.searches:
        return f"the head {head.kind} finds several labels by a search"
    if head.learns_tokens:
        return f"the head {head.kind} learns labels of words as well"
    return ""


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
    if system.prune is not None and not recipe.by_gradient:
        unused["prune"] = recipe.training
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
    names += ["train.schedule"] if config.schedule == "plateau" else []  # plateau needs evaluations
    return dict.fromkeys(names, recipe.training)


def _reject_unused(name: str, system: System, unused: Mapping[str, str]) -> None:
    own = {"encoder": system.encoder, "head": system.head, "train": system.train, "prune": system.prune}
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
