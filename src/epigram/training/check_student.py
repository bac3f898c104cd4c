"""Check of one student: it can learn from the probabilities of a teacher, and each of its settings has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.models.settings import Student
from epigram.nn.layers.loss import LOSS_SETTINGS
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import recipe_of
from epigram.training.check_system import check_system


def check_student(
    name: str,
    student: Student,
    train: Mapping[str, Any],
    context: DataSpec,
    texts: str | None,
    *,
    words_only: bool = False,
) -> list[str]:
    """Check the student `name` of params.yaml, whose view has the file `texts`, as `check_system` checks a system.

    `words_only`: the data have labels of words alone. The warnings also name shared settings of the loss of labels.
    Raises ParameterError also for a student of such data, whose view has no texts, that is not trained by gradient
    descent, or whose head has a loss of its own.
    """
    path = f"students.{name}"
    if words_only:
        raise ParameterError(
            f"params.yaml: {path} learns labels of texts, but the data set has only labels of words; remove it"
        )
    if texts is None:
        where = f"views.{student.view}.texts"
        raise ParameterError(f"params.yaml: {path} learns from texts without labels; set {where} to a file of texts")
    recipe = recipe_of(name, student, train, checkpoint=context.checkpoint)
    _check_kind(path, recipe)
    reasons = dict.fromkeys((*LOSS_SETTINGS, "fitted_head"), "a student learns from probabilities")
    reasons["processes"] = "a student is trained in one process"
    if own := [key for key in reasons if key in student.train]:
        raise ParameterError(f"params.yaml: {path}.train.{own[0]} has no effect, because {reasons[own[0]]}; remove it")
    warnings = check_system(name, student, train, context)
    return warnings + [
        f"params.yaml: no effect: train.{key} ({reason})" for key, reason in reasons.items() if key in train
    ]


def _check_kind(path: str, recipe: Recipe) -> None:
    if recipe.kind != "classifier":
        reason = recipe.training
    elif recipe.head["kind"] != "linear":
        reason = f"the head {recipe.head['kind']} has a loss of its own"
    else:
        return
    raise ParameterError(
        f"params.yaml: {path} cannot learn from probabilities, because {reason}; use a recipe such as fast_text, "
        "textcnn or transformer"
    )
