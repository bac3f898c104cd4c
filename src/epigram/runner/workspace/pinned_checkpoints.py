"""Checkpoints of the hub without a commit: params.yaml gets the newest one, so that every run reads the same files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epigram.checkpoints.hub import BARE_NAME, HUB_PREFIX
from epigram.core.settings import read_params
from epigram.data.sources.hub_models import newest_commit
from epigram.runner.workspace.settings import edited


def pin_checkpoints(params: Path) -> list[str]:
    """Write the newest commit behind each checkpoint hub:ORG/NAME in the file `params`; return sentences for the user.

    Raises InputMissingError for an unknown repository, SourceUnavailableError if the hub cannot be reached.
    """
    known = read_params(params).get("views")
    views = {name: view for name, view in known.items() if isinstance(view, Mapping)} if isinstance(known, dict) else {}
    named = {name: str(view.get("checkpoint")) for name, view in views.items()}
    bare = {name: found for name, found in named.items() if found.startswith(HUB_PREFIX)}
    bare = {name: found for name, found in bare.items() if BARE_NAME.fullmatch(found.removeprefix(HUB_PREFIX))}
    if not bare:
        return []
    pinned = {found: f"{found}@{newest_commit(found)}" for found in sorted(set(bare.values()))}
    with edited(params) as values:
        for name, found in bare.items():
            values["views"][name]["checkpoint"] = pinned[found]
    return [f"{params.name}: the checkpoint {old} is now {new}, its newest commit" for old, new in pinned.items()]
