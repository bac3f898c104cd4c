"""Check of a system with a teacher: it can learn from probabilities, and each of its settings has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epigram.core.errors import ParameterError
from epigram.models.recipe import HEADS, Recipe, parse_part
from epigram.models.settings import System
from epigram.nn.layers.loss import LOSS_SETTINGS
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import recipe_of


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
