"""Overrides of a run: checked before anything runs, and written into params.yaml, whose comments are kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epigram.core.config_types import nearest, shown, validate_as
from epigram.core.errors import ParameterError
from epigram.core.settings import MODELS
from epigram.data.readers import labels_tokens
from epigram.data.sources.source import load_source
from epigram.models.settings import System
from epigram.runner.project.record import check_version
from epigram.runner.workspace.params_file import Params, edited
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import load
from epigram.text.settings import View

DEFAULT_VIEWS: dict[str, dict[str, Any]] = {
    "token": {"tokenizer": "token"},
    "spelled": {"tokenizer": "token", "characters": True},
    "token_prompt": {"tokenizer": "token", "prompt": True},
    "wordpiece": {"tokenizer": "wordpiece"},
    "wordpiece_prompt": {"tokenizer": "wordpiece", "prompt": True},
}
SECTIONS = {  # sections of params.yaml with a part per name, and how to select or change a part
    "systems": "select with --systems textcnn, change with --set systems.textcnn.train.epochs=2",
    "students": "change one with --set students.NAME.train.epochs=2",
    "views": "change one with --set views.wordpiece.pretrain={}",
}


def check(request: Request) -> None:
    """Raise ParameterError if the overrides cannot run: for an unknown data set, system or setting.

    A run of another revision is checked by that revision's own code when it runs.
    """
    if request.revision:
        return
    check_version(request.root)
    params = request.root / "params.yaml"
    settings = load(params)
    if request.overrides:
        with TemporaryDirectory() as folder:
            changed = Path(shutil.copy(params, folder))
            write(changed, request)
            settings = load(changed)
    _check_dataset(settings.dataset, request.root)


def check_systems(params: Path) -> None:
    """Raise ParameterError if a part of a system or pruning does not accept its settings. Imports all training code."""
    from epigram.text.prompts import mask_counts
    from epigram.training.preflight import check_systems

    settings = load(params)
    source = load_source(settings.dataset, params.parent / "data" / "sources")
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source)}
    masks = mask_counts(settings.augment.template)
    settings.prune.check()
    check_systems(settings.views, settings.systems, settings.train, students=settings.students, masks=masks, **kind)


def write(path: Path, request: Request) -> None:
    """Apply the overrides of `request` to the params.yaml at `path`."""
    if not request.overrides:
        return
    with edited(path) as params:
        apply(params, request)


def apply(params: Params, request: Request) -> None:
    """Change `params` in place: sections of a plan, data set, seeds, systems, keys, then the views of the systems.

    The students are left out of a run of another data set or of selected systems.
    """
    params.update(request.plan)
    if request.dataset:
        params["dataset"] = request.dataset
    if request.seeds:
        params["seeds"] = list(request.seeds)
    if request.dataset or request.systems or request.plan:  # the texts and the teacher of the students are others
        params["students"] = {}
    if request.systems:
        _select_systems(params, request)
    elif request.dataset and not request.plan:
        for name in unsuitable_systems(params, request.root):
            del params["systems"][name]
    for key, value in request.changes.items():
        _set_value(params, key, value)
    for section, hint in SECTIONS.items():
        if not isinstance(params.setdefault(section, {}), Mapping):
            value = shown(repr(params[section]))
            raise ParameterError(
                f"params.yaml: {section} is {value}; expected a section with one entry per name: {hint}"
            )
    _match_views(params, request.changes)


def _check_dataset(name: str, root: Path) -> None:
    known = [path.stem for path in (root / "data" / "sources").glob("*.yaml")]
    if name not in known:
        raise ParameterError(
            f"params.yaml: dataset is {name!r}, but data/sources has no such file: {nearest(name, known)}"
        )


def _select_systems(params: Params, request: Request) -> None:
    own, requested = params["systems"], request.systems
    if set(requested) <= set(own):  # no registry needed: importing the recipes' parts takes a second
        params["systems"] = {name: own[name] for name in requested}
        return
    from epigram.models.registry import RECIPES

    names = _all_systems(params, request) if requested == ("all",) else list(requested)
    for name in names:
        if name not in own and name not in RECIPES:
            known = sorted({*own, *RECIPES})
            raise ParameterError(f"params.yaml: systems.{name}: unknown system {name!r}: {nearest(name, known)}")
    params["systems"] = {name: own[name] if name in own else {"view": RECIPES[name].view} for name in names}


def _all_systems(params: Params, request: Request) -> list[str]:
    """Return the registered systems that can be trained on the run's data set."""
    from epigram.models.registry import RECIPES
    from epigram.training.preflight import is_trainable

    source = load_source(params["dataset"], request.root / "data" / "sources")
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source)}
    return [
        name for name, recipe in RECIPES.items() if is_trainable(recipe, View(**DEFAULT_VIEWS[recipe.view]), **kind)
    ]


def unsuitable_systems(params: Mapping[str, Any], root: Path) -> list[str]:
    """Return the systems of `params` that need other data than its data set has, such as token labels.

    A system that fits no data set is not included: `check_systems` reports it. The list is empty if it would contain
    all systems.
    """
    _check_dataset(params["dataset"], root)
    source = load_source(params["dataset"], root / "data" / "sources")
    if source.task != "multi" and labels_tokens(source):
        return []
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source)}
    systems = params["systems"] if isinstance(params["systems"], Mapping) else {}
    unsuitable = [
        name
        for name in systems
        if _is_trainable(params, name, multi=False, tokens=True) and not _is_trainable(params, name, **kind)
    ]
    return unsuitable if len(unsuitable) < len(systems) else []


def _is_trainable(params: Mapping[str, Any], name: str, **kind: bool) -> bool:
    """Return whether the system `name` of `params` can be trained on such data."""
    from epigram.models.registry import recipe_of
    from epigram.training.preflight import is_trainable

    try:
        system = validate_as(System, params["systems"][name])
        view = validate_as(View, {**DEFAULT_VIEWS, **params["views"]}[system.view])
        return is_trainable(recipe_of(name, system, checkpoint=view.checkpoint), view, **kind)
    except (ParameterError, LookupError, TypeError):
        return False


def _set_value(params: Params, key: str, value: Any) -> None:
    *path, last = key.split(".")
    section: Any = params
    for depth, part in enumerate(path, start=1):
        section = section.setdefault(part, _default_section(path[:depth]))
        if not isinstance(section, MutableMapping):
            raise ParameterError(f"params.yaml: {key}: {'.'.join(path[:depth])} is not a section")
    section[last] = {**_default_section([*path, last]), **value} if isinstance(value, Mapping) else value


def _default_section(path: list[str]) -> dict[str, Any]:
    """Return the initial content of a section that params.yaml lacks: the default view of that name, or {}."""
    return dict(DEFAULT_VIEWS.get(path[1], {})) if path[0] == "views" and len(path) == 2 else {}


def _match_views(params: Params, changes: Mapping[str, Any]) -> None:
    """Keep the views that the systems use and add missing ones.

    Raises ParameterError if a change is in a view that no system uses.
    """
    systems = [system for section in MODELS for system in params[section].values() if isinstance(system, Mapping)]
    used = dict.fromkeys(view for system in systems if isinstance(view := system.get("view"), str))
    for section, name in (key.split(".")[:2] for key in changes if key.startswith("views.")):
        if name not in used:
            raise ParameterError(
                f"params.yaml: {section}.{shown(name)} is not used in this run: {nearest(name, list(used))}"
            )
    known = {**DEFAULT_VIEWS, **params["views"]}
    # Unknown view names are reported when the settings are read.
    params["views"] = {view: known[view] for view in used if view in known}
