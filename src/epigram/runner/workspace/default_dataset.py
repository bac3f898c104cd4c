"""Data set of params.yaml: that of runs, retrainings and schedules which name no other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epigram.core.settings import read_params
from epigram.evaluation.comparison.formats import join_names
from epigram.runner.workspace.params_file import edited
from epigram.runner.workspace.unsuitable import unsuitable_systems

EMBEDDED = "pocket_"  # start of the names of the embedded corpora


def use_dataset(params: Path, name: str) -> str | None:
    """Make `name` the data set of the file `params`, as a run of it would have; return a sentence for the user.

    Systems that the data set does not suit are removed, with views that only they read. If the file does not name an
    embedded corpus, the user has chosen a data set: the file stays as it is, and the result is None.
    """
    if not str(read_params(params).get("dataset", "")).startswith(EMBEDDED):
        return None
    with edited(params) as values:
        values["dataset"] = name
        removed = list(unsuitable_systems(values, params.parent))
        views: set[Any] = {values["systems"].pop(system)["view"] for system in removed}
        others = values["systems"].values() if removed else ()
        for view in views - {system.get("view") for system in others if isinstance(system, Mapping)}:
            values["views"].pop(view, None)
    without = f", without {join_names(removed)}, which it does not suit" if removed else ""
    return f"{params.name}: dataset is now {name}{without}; runs, retrainings and schedules use it"
