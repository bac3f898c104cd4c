"""Systems on a sentence encoder, added to params.yaml if the encoder's package is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epigram.checkpoints.folders import PREFIX, checkpoint_folder, install_command, packages_for, unknown_language
from epigram.core.extras import MissingPackageError
from epigram.core.settings import read_params
from epigram.runner.workspace.settings import edited
from epigram.text.dataset.language import Language

VIEW, SYSTEMS = "sentences", ("embedding_linear", "hybrid_linear")
SECOND = "_multilingual"  # end of the names where an encoder for another language has the first ones


def add_systems(params: Path, language: Language) -> str | None:
    """Add the systems to the file `params`; return a sentence for the user, None if the file has one of them already.

    Systems on an encoder that has not learned the language do not count: it gets systems of its own beside them. If no
    encoder for the language is installed, the file stays as it is, and the sentence says how to install one.
    """
    known = read_params(params)
    if not isinstance(known.get("views"), Mapping) or not isinstance(known.get("systems"), Mapping):
        return None  # the next run says what is wrong
    suffix = _free_names(known, language)
    if suffix is None:
        return None
    if (checkpoint := installed_encoder(language)) is None:
        command = install_command(packages_for(language)[0])
        return (
            f"with few labelled texts, a pretrained encoder helps; docs/systems.md says how to use it after: {command}"
        )
    view, names = f"{VIEW}{suffix}", [f"{name}{suffix}" for name in SYSTEMS]
    with edited(params) as values:
        values["views"][view] = {"tokenizer": "wordpiece", "checkpoint": checkpoint}
        for name, recipe in zip(names, SYSTEMS, strict=True):
            values["systems"][name] = {**({"recipe": recipe} if suffix else {}), "view": view}
    return f"{params.name}: added the systems {' and '.join(names)} on {checkpoint} (view {view})"


def installed_encoder(language: Language) -> str | None:
    """Return the checkpoint of the best installed encoder for the language, None if there is none."""
    for name in packages_for(language):
        try:
            checkpoint_folder(f"{PREFIX}{name}")
            return f"{PREFIX}{name}"
        except MissingPackageError:
            continue
    return None


def _free_names(params: Mapping[str, Any], language: Language) -> str | None:
    """Return the end of the names that the systems get, None if the file has systems for the language."""
    for suffix in ("", SECOND):
        read = _views_of(params, suffix)
        if not read:
            return suffix
        if not any(unknown_language(_checkpoint(params, view), language) for view in read):
            return None
    return None


def _views_of(params: Mapping[str, Any], suffix: str) -> set[str]:
    """Return the views of the systems whose names end with `suffix`, and the view that they would get, if it exists."""
    systems = [params["systems"].get(f"{name}{suffix}") for name in SYSTEMS]
    own = {f"{VIEW}{suffix}"} & set(params["views"])
    return own | {str(system.get("view")) if isinstance(system, Mapping) else "" for system in systems if system}


def _checkpoint(params: Mapping[str, Any], view: str) -> str | None:
    """Return the checkpoint of a view, None if it has none."""
    found = params["views"].get(view)
    checkpoint = found.get("checkpoint") if isinstance(found, Mapping) else None
    return checkpoint if isinstance(checkpoint, str) else None
