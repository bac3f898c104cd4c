"""Reader of params.yaml; the class of each section is defined next to the code that uses the section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from epigram.core.config_types import Seed, check_name, nearest, read_yaml, shown, validate_as
from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.masking import mask

T = TypeVar("T")

REQUIRED = ("dataset", "seeds", "views", "systems")
NAMED = ("views", "systems")
RESERVED = ("ensemble",)  # the name of the ensemble among the systems
SECTIONS = (
    *REQUIRED,
    "download",
    "validate",
    "examine",
    "pos_table",
    "augment",
    "encode",
    "train",
    "prune",
    "evaluate",
    "ensemble",
    "compare",
    "report",
    "retrain",
    "drift",
    "metric",
)


@dataclass(frozen=True)
class Params:
    """The part of params.yaml that a stage declares in its PARAMS.

    A declared `views.{key}` allows only the entry of `views` that is named `key`. A section's values are checked when
    the section is read.
    """

    declared: tuple[str, ...]
    values: Mapping[str, Any]
    key: str = ""

    @classmethod
    def read(cls, declared: tuple[str, ...], *, key: str = "", path: Path = Path("params.yaml")) -> Params:
        """Read the file. Raises ParameterError for an unknown or a missing section and for an invalid name."""
        values = read_params(path)
        check_sections(values)
        check_names(values)
        check_views(values)
        return cls(declared, values, key)

    @property
    def seeds(self) -> list[int]:
        """The seeds. Raises ParameterError for an invalid or a repeated seed."""
        seeds = self.section("seeds", list[Seed])
        check_seeds(seeds)
        return seeds

    def section(self, name: str, kind: type[T]) -> T:
        """Return the section `name` as a `kind`. Raises ParameterError for an invalid value."""
        return validate_as(kind, self._values(name, name), name)

    def value(self, name: str, kind: Any, default: Any) -> Any:
        """Return the value of the key `name`, which is no section. Raises ParameterError for an invalid value."""
        found = self._values(name, name)
        return validate_as(kind, default if found == {} else found, name)

    def entry(self, name: str, kind: type[T]) -> T:
        """Return the entry `key` of the section `name` as a `kind`.

        Raises ParameterError if the value is invalid or the entry is missing; for a missing entry, the message contains
        the nearest name.
        """
        entries = validate_as(dict[str, Any], self._values(name, f"{name}.{{key}}"), name)
        if self.key not in entries:
            raise ParameterError(f"params.yaml: {name} has no {self.key!r}: {nearest(self.key, list(entries))}")
        return validate_as(kind, entries[self.key], f"{name}.{self.key}")

    def _values(self, name: str, param: str) -> Any:
        if param not in self.declared:
            raise LookupError(f"the stage reads {param} of params.yaml, which its PARAMS do not declare")
        return self.values.get(name, {})


def read_params(path: Path = Path("params.yaml")) -> dict[str, Any]:
    """Return the content of params.yaml without checks of its values, and mask what its `report.mask` lists."""
    try:
        values = read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run from the repository's root") from None
    if not isinstance(values, Mapping):
        found = "empty" if values is None else f"a {type(values).__name__}"
        raise ParameterError(f"{path} is {found}; expected sections, for example dataset: pocket_zh")
    report = values.get("report")
    mask(report.get("mask") if isinstance(report, Mapping) else None)
    return dict(values)


def dataset_of(path: Path) -> str:
    """Return the data set that a params.yaml names, without checking the rest of the file. Raises ParameterError."""
    name = read_params(path).get("dataset")
    check_name(f"{path.name}: dataset", name)
    return str(name)


def check_sections(values: Mapping[str, Any]) -> None:
    """Raise ParameterError for an unknown section, with the nearest name, and for a missing one."""
    unknown = [str(name) for name in values if name not in SECTIONS]
    faults = [f"{shown(name)} is not a setting: {nearest(name, list(SECTIONS))}" for name in unknown]
    faults += [f"{name} is missing" for name in REQUIRED if name not in values]
    if faults:
        raise ParameterError("\n".join(f"params.yaml: {fault}" for fault in faults))


def check_names(values: Mapping[str, Any]) -> None:
    """Check the names in `values`, which DVC inserts into paths and shell commands.

    Raises ParameterError for a name with other characters than NAME_RULE allows, and for a reserved name of a system.
    """
    sections = {name: section for name in NAMED if isinstance(section := values.get(name), Mapping)}
    found = [("dataset", values.get("dataset"))]
    found += [(f"a name in {section}", name) for section, each in sections.items() for name in each]
    found += [(f"systems.{name}.view", system.get("view")) for name, system in _systems_of(values)]
    for where, name in found:
        if isinstance(name, str):
            check_name(f"params.yaml: {where}", name)
    if reserved := [name for name in sections.get("systems", {}) if name in RESERVED]:
        raise ParameterError(f"params.yaml: systems.{reserved[0]}: this name is reserved; choose another one")


def check_views(values: Mapping[str, Any]) -> None:
    """Raise ParameterError, with the nearest name, for a system whose view is not in `views`."""
    views = values.get("views")
    if not isinstance(views, Mapping):
        return  # reported where the section is read
    for name, system in _systems_of(values):
        view = system.get("view")
        if isinstance(view, str) and view not in views:
            known = nearest(view, list(map(str, views)))
            raise ParameterError(f"params.yaml: systems.{name}.view is {view!r}: {known}")


def _systems_of(values: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the settings of each system; what is no mapping is reported where it is read."""
    systems = values.get("systems")
    entries = systems.items() if isinstance(systems, Mapping) else ()
    return [(name, entry) for name, entry in entries if isinstance(entry, Mapping)]


def check_seeds(seeds: list[int]) -> None:
    """Raise ParameterError if there is no seed or a repeated one."""
    if not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError(f"params.yaml: seeds is {seeds}; expected one or more different integers")
