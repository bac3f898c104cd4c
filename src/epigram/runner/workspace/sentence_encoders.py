"""Systems on a sentence encoder, added to params.yaml if the encoder's package is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epigram.checkpoints.folders import install_command, installed_encoder, packages_for
from epigram.core.settings import read_params
from epigram.runner.workspace.settings import edited
from epigram.text.dataset.language import Language

VIEW, SYSTEMS = "sentences", ("embedding_linear", "hybrid_linear")


def add_systems(params: Path, language: Language) -> str | None:
    """Add the systems to the file `params`; return a sentence for the user, None if the file has one of them already.

    If no encoder for the language is installed, the file stays as it is, and the sentence says how to install one.
    """
    known = read_params(params)
    views, systems = known.get("views"), known.get("systems")
    if not isinstance(views, Mapping) or not isinstance(systems, Mapping):
        return None  # the next run says what is wrong
    if VIEW in views or set(SYSTEMS) & set(systems):
        return None
    if (checkpoint := installed_encoder(language)) is None:
        command = install_command(packages_for(language)[0])
        return (
            f"with few labelled texts, a pretrained encoder helps; docs/systems.md says how to use it after: {command}"
        )
    with edited(params) as values:
        values["views"][VIEW] = {"tokenizer": "wordpiece", "checkpoint": checkpoint}
        for name in SYSTEMS:
            values["systems"][name] = {"view": VIEW}
    return f"{params.name}: added the systems {' and '.join(SYSTEMS)} on {checkpoint} (view {VIEW})"
