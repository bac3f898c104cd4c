"""Systems of params.yaml that the data set of a run does not suit, by its kind of labels or its language."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epigram.checkpoints.folders import unknown_language
from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.data.readers import labels_tokens
from epigram.data.sources.source import Source, load_source
from epigram.models.settings import System
from epigram.text.settings import ViewSettings

DEFAULT_VIEWS: dict[str, dict[str, Any]] = {
    "token": {"tokenizer": "token"},
    "spelled": {"tokenizer": "token", "characters": True},
    "token_prompt": {"tokenizer": "token", "prompt": True},
    "wordpiece": {"tokenizer": "wordpiece"},
    "wordpiece_prompt": {"tokenizer": "wordpiece", "prompt": True},
}


def unsuitable_systems(params: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Return the systems of `params` that its data set does not suit, each with the reason.

    Either it lacks labels that they need, such as token labels, or their encoder has not learned its language, or
    they have a teacher, which knows the labels of the data set of params.yaml. A system that fits no data set is not
    included: `check_systems` reports it. The result is empty if it would contain all systems.
    """
    source = load_source(params["dataset"], root / "data" / "sources")
    systems = params["systems"] if isinstance(params["systems"], Mapping) else {}
    found = {name: reason for name in systems if (reason := _reason(params, name, source))}
    return found if len(found) < len(systems) else {}


def _reason(params: Mapping[str, Any], name: str, source: Source) -> str:
    """Return why the system `name` does not suit the data set; empty if it does, or if its settings are wrong."""
    try:
        system = validate_as(System, params["systems"][name])
        view = validate_as(ViewSettings, {**DEFAULT_VIEWS, **params["views"]}[system.view])
    except (ParameterError, LookupError, TypeError):
        return ""
    if system.teacher is not None:
        return "its teacher and its texts are for the data set of params.yaml"
    if reason := unknown_language(view.checkpoint, source.language):
        return reason
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source)}
    if kind == {"multi": False, "tokens": True}:  # every kind of label
        return ""
    if _is_trainable(name, system, view, **kind) or not _is_trainable(name, system, view, multi=False, tokens=True):
        return ""
    return f"{source.name} does not have the labels that it requires"


def _is_trainable(name: str, system: System, view: ViewSettings, **kind: bool) -> bool:
    """Return whether a system can be trained on such data."""
    from epigram.recipes.registry import recipe_of
    from epigram.training.preflight import is_trainable

    try:
        return is_trainable(recipe_of(name, system, checkpoint=view.checkpoint), view, **kind)
    except ParameterError:
        return False
