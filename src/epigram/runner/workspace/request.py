"""Request for a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epigram.core.config_types import check_name
from epigram.core.errors import ParameterError
from epigram.core.settings import check_names
from epigram.runner.workspace.run_folders import check_run_name


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run of the pipeline of the repository `root`, with its overrides of params.yaml.

    `changes` maps dotted keys to values. `revision` is the commit to run instead of the working tree. A run with an
    override or a revision works in its own workspace.
    """

    root: Path
    dataset: str | None = None
    systems: tuple[str, ...] = ()  # ("all",) for every recipe
    seeds: tuple[int, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)  # whole sections of params.yaml, of a search
    revision: str | None = None
    name: str | None = None
    space: str | None = None  # key of the workspace; None: by the overrides and the revision
    systems_until: float | None = None  # monotonic time; systems, or views, that are not finished then are left out
    max_parallel: int | None = None  # parallel stages; None: the number of processors
    ray: str | None = None  # Ray cluster whose workers run the stages; None: this machine

    def __post_init__(self) -> None:
        """Raise ParameterError for values that are unsafe in a path or a command line, before they are used."""
        check_names({"dataset": self.dataset, "systems": dict.fromkeys(self.systems)})
        if self.name is not None:
            check_run_name(self.name)
        if self.space is not None:
            check_name("space", self.space)
        if self.revision and self.revision.startswith("-"):
            raise ParameterError(f"invalid revision {self.revision!r}: expected a branch, a tag or a commit")

    @property
    def overrides(self) -> dict[str, Any]:
        """The overrides that are set."""
        values = {
            "dataset": self.dataset,
            "systems": self.systems,
            "seeds": self.seeds,
            "changes": dict(self.changes),
            "plan": dict(self.plan),
        }
        return {key: value for key, value in values.items() if value}

    @property
    def isolated(self) -> bool:
        """Whether the run needs a workspace."""
        return bool(self.overrides or self.revision)

    @property
    def key(self) -> str:
        """Hash of the overrides and the revision name, or the given key; it is part of the workspace's name."""
        if self.space:
            return self.space
        content = json.dumps([self.overrides, self.revision], sort_keys=True, default=str)
        return hashlib.sha256(bytes(content, "utf-8")).hexdigest()[:10]
