"""Request for a run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from epigram.core.config_types import Checked, Name, Positive, Seed, is_name, validate_as
from epigram.runner.workspace.run_folders import RunName

Revision = Annotated[
    str,
    Checked(lambda name: name.isprintable() and not name.startswith("-"), "a branch, a tag or a commit"),
]
Key = Annotated[
    str,
    Checked(
        lambda key: all(map(is_name, key.split("."))),
        "a key of params.yaml: names of letters, digits, _ and -, with dots between them",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run of the pipeline of the repository `root`, with its overrides of params.yaml.

    `changes` maps dotted keys to values. `revision` is the commit to run instead of the working tree. A run with an
    override or a revision works in its own workspace. Every value is validated when a request is made, because it may
    become a part of a path or of a command: raises ParameterError.
    """

    root: Path
    dataset: Name | None = None
    systems: tuple[Name, ...] = ()  # ("all",) for every recipe
    seeds: tuple[Seed, ...] = ()
    changes: dict[Key, Any] = field(default_factory=dict)
    revision: Revision | None = None
    name: RunName | None = None
    max_parallel: Positive | None = None  # parallel stages; None: the number of processors
    max_silence: Positive | None = None  # seconds without output after which a stage is ended and tried again
    ray: str | None = None  # Ray cluster whose workers run the stages; None: this machine

    def __post_init__(self) -> None:
        """Replace each value by its validated one."""
        hints = get_type_hints(type(self), include_extras=True)
        for each in fields(self):
            value = validate_as(hints[each.name], getattr(self, each.name), each.name, file="run")
            object.__setattr__(self, each.name, value)

    @property
    def overrides(self) -> dict[str, Any]:
        """The overrides that are set."""
        values = {
            "dataset": self.dataset,
            "systems": self.systems,
            "seeds": self.seeds,
            "changes": self.changes,
        }
        return {key: value for key, value in values.items() if value}

    @property
    def isolated(self) -> bool:
        """Whether the run needs a workspace."""
        return bool(self.overrides or self.revision)

    @property
    def key(self) -> str:
        """Hash of the overrides and the revision name; it is part of the workspace's name."""
        content = json.dumps([self.overrides, self.revision], sort_keys=True, default=str)
        return hashlib.sha256(bytes(content, "utf-8")).hexdigest()[:10]
