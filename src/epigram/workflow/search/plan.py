"""Plan of a run: the systems and settings that a search chose, without a clock, as plan.yaml."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from epigram.checkpoints.folders import PREFIX
from epigram.checkpoints.hub import HUB_PREFIX
from epigram.core.config_types import Checked, Name, Seed, Strict, is_inner_path, read_yaml, validate_as
from epigram.core.errors import InputMissingError
from epigram.core.files import write_text

PLAN = "plan.yaml"
HEAD = "# Written by `epigram run --budget`. To run it again: epigram run --plan {name}\n"


def _is_own_checkpoint(view: dict[str, Any]) -> bool:
    """Return whether the checkpoint of a view, if it has one, is in the project, a package's or the hub's."""
    name = view.get("checkpoint")
    named = isinstance(name, str) and name.startswith((PREFIX, HUB_PREFIX))
    return name is None or named or (isinstance(name, str) and is_inner_path(name) and not name.startswith("~"))


PlannedView = Annotated[
    dict[str, Any],
    Checked(_is_own_checkpoint, f"a view whose checkpoint is a folder in the project, {PREFIX}… or {HUB_PREFIX}…"),
]
Seeds = Annotated[
    list[Seed], Checked(lambda seeds: 0 < len(set(seeds)) == len(seeds), "one or more different integers")
]


@dataclass(frozen=True, kw_only=True)
class RunPlan(Strict):
    """Sections of params.yaml that a run has instead of the project's own."""

    dataset: Name
    seeds: Seeds
    views: dict[Name, PlannedView]
    systems: Annotated[dict[Name, dict[str, Any]], Checked(bool, "one or more systems")]
    pos_table: dict[str, Any] = field(default_factory=dict)
    prune: dict[str, Any] = field(default_factory=dict)
    compare: dict[str, Any] = field(default_factory=dict)
    examine: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] | None = None  # None, as in plans of earlier versions: the project's own
    validate: dict[str, Any] | None = None
    encode: dict[str, Any] | None = None
    evaluate: dict[str, Any] | None = None
    ensemble: dict[str, Any] | None = None

    @property
    def sections(self) -> dict[str, Any]:
        """The sections by name, without optional ones that are empty, for which the project's own count."""
        return {
            name: section
            for name, section in asdict(self).items()
            if section or (name in WHOLE and section is not None)
        }

    def with_own_keys(self, params: Mapping[str, Any]) -> RunPlan:
        """Return the plan with the keys of params.yaml that a search has not set in the optional sections.

        It also gets the sections `WHOLE`, so that a replay after a change of params.yaml has the same result.
        """
        optional = [each.name for each in fields(self) if each.default_factory is not MISSING]
        parts = {name: found for name in optional if (found := getattr(self, name))}
        merged: dict[str, Any] = {name: {**(params.get(name) or {}), **found} for name, found in parts.items()}
        whole: dict[str, Any] = {name: dict(params.get(name) or {}) for name in WHOLE if getattr(self, name) is None}
        return replace(self, **merged, **whole)

    def without(self, systems: Collection[str]) -> RunPlan:
        """Return the plan without some systems, and without the views that no other system reads.

        With the name of a view, the systems that read it are left out.
        """
        out = set(systems)
        left = {name: system for name, system in self.systems.items() if not {name, system["view"]} & out}
        used = {system["view"] for system in left.values()}
        return replace(self, systems=left, views={name: view for name, view in self.views.items() if name in used})


# Sections on which the models and their evaluation depend, whole and as they are.
WHOLE = tuple(each.name for each in fields(RunPlan) if each.default is None)


def write_plan(path: Path, plan: RunPlan) -> None:
    """Write the plan as YAML, atomically."""
    import yaml

    text = yaml.safe_dump(plan.sections, sort_keys=False, allow_unicode=True, width=118)
    write_text(path, HEAD.format(name=path.name) + text)


def read_plan(path: Path) -> RunPlan:
    """Read a plan. Raises InputMissingError, or ParameterError for a file that is no plan."""
    try:
        values = read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing; --plan expects a file that `epigram run --budget` wrote") from None
    return validate_as(RunPlan, values if isinstance(values, Mapping) else {}, file=str(path))
