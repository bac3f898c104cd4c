"""Overrides of a run: checked before anything runs, and written into params.yaml, whose comments are kept."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epigram.checkpoints.folders import unknown_language
from epigram.core.config_types import nearest, shown
from epigram.core.errors import ParameterError
from epigram.core.files import sha256
from epigram.core.settings import read_params
from epigram.data.readers import labels_tokens
from epigram.data.sources.source import load_source
from epigram.evaluation.records.student_record import read_students
from epigram.runner.project.files import check_version
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import Params, Settings, edited, load
from epigram.runner.workspace.unsuitable import DEFAULT_VIEWS, unsuitable_systems
from epigram.text.settings import ViewSettings

SECTIONS = {  # sections of params.yaml with a part per name, and how to select or change a part
    "systems": "select with --systems textcnn, change with --set systems.textcnn.train.epochs=2",
    "views": "change one with --set views.wordpiece.pretrain={}",
}


def check(request: Request) -> Settings | None:
    """Return the settings of the run. Raises ParameterError for an unknown data set, system or setting.

    A run of another revision is checked by that revision's own code when it runs; None is returned.
    """
    if request.revision:
        return None
    check_version(request.root)
    params = request.root / "params.yaml"
    settings = load(params)
    if request.overrides:
        with TemporaryDirectory() as folder:
            changed = Path(shutil.copy(params, folder))
            write(changed, request)
            settings = load(changed)
    _check_dataset(settings.dataset, request.root)
    return settings


def check_systems(params: Path) -> None:
    """Raise ParameterError if a part of a system or pruning does not accept its settings, or an encoder its texts.

    Imports all training code.
    """
    from epigram.text.prompts.prompts import mask_counts
    from epigram.training.preflight import check_systems

    settings = load(params)
    source = load_source(settings.dataset, params.parent / "data" / "sources")
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source), "words_only": source.task == "tokens"}
    masks = mask_counts(settings.augment.template)
    settings.prune.check()
    for system in settings.systems.values():
        if reason := unknown_language(settings.views[system.view].checkpoint, source.language):
            raise ParameterError(f"params.yaml: views.{system.view}: {reason}")
    check_systems(settings.views, settings.systems, settings.train, masks=masks, **kind)


def check_teachers(params: Path) -> None:
    """Raise an error if a system's teacher is not a saved model in a folder of its own, or was changed.

    DVC does not see that a run was replaced by hand, so a student of the model before would stay.
    """
    settings, models = load(params), params.parent / "data" / "models"
    teachers = {name: system.teacher for name, system in settings.systems.items() if system.teacher}
    if not teachers:
        return
    from epigram.models import manifest
    from epigram.training.teacher import RUNS, teacher_folder

    learned = read_students(models, teachers)
    for name, path in teachers.items():
        where = f"systems.{name}.teacher"
        folder = teacher_folder(path, where, params.parent)
        manifest.verify(folder)
        if not path.startswith(RUNS) or name not in learned or learned[name].teacher != path:
            continue
        student = manifest.TrainingFacts.read(models / name / f"seed-{settings.seeds[0]}")
        if student.provenance["teacher"] != sha256(folder / manifest.MANIFEST):
            raise ParameterError(
                f"params.yaml: {where} is {path!r}, where another model was when {name} learned from it; move the new "
                "model to a folder of another name"
            )


def write(path: Path, request: Request) -> None:
    """Apply the overrides of `request` to the params.yaml at `path`."""
    if not request.overrides:
        return
    with edited(path) as params:
        apply(params, request)


def apply(params: Params, request: Request) -> None:
    """Change `params` in place: data set, seeds, systems, keys, then the views of the systems.

    Systems that the data set does not suit are left out of a run of all systems.
    """
    _change(params, request)
    if _runs_another_dataset(request):
        _check_dataset(params["dataset"], request.root)
        for name in unsuitable_systems(params, request.root):
            del params["systems"][name]
    for section, hint in SECTIONS.items():
        if not isinstance(params.setdefault(section, {}), Mapping):
            value = shown(repr(params[section]))
            raise ParameterError(
                f"params.yaml: {section} is {value}; expected a section with one entry per name: {hint}"
            )
    _match_views(params, request.changes)


def left_out(request: Request) -> dict[str, str]:
    """Return the systems of params.yaml that the data set of the run does not suit, each with the reason."""
    if not _runs_another_dataset(request):
        return {}
    params = read_params(request.root / "params.yaml")
    _change(params, request)
    return unsuitable_systems(params, request.root)


def _runs_another_dataset(request: Request) -> bool:
    """Return whether the run trains the systems of params.yaml on a data set that it chooses."""
    return bool(request.dataset and not request.systems)


def _change(params: Params, request: Request) -> None:
    if request.dataset:
        params["dataset"] = request.dataset
    if request.seeds:
        params["seeds"] = list(request.seeds)
    if request.systems:
        _select_systems(params, request)
    _set_values(params, request.changes)


def _set_values(params: Params, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        _set_value(params, key, value)


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
    from epigram.recipes.registry import RECIPES

    names = _all_systems(params, request) if requested == ("all",) else list(requested)
    for name in names:
        if name not in own and name not in RECIPES:
            known = sorted({*own, *RECIPES})
            raise ParameterError(f"params.yaml: systems.{name}: unknown system {name!r}: {nearest(name, known)}")
    params["systems"] = {name: own[name] if name in own else {"view": RECIPES[name].view} for name in names}


def _all_systems(params: Params, request: Request) -> list[str]:
    """Return the registered systems that can be trained on the run's data set."""
    from epigram.recipes.registry import RECIPES
    from epigram.training.preflight import is_trainable

    source = load_source(params["dataset"], request.root / "data" / "sources")
    kind = {"multi": source.task == "multi", "tokens": labels_tokens(source)}
    changed = copy.deepcopy(params)
    _set_values(changed, request.changes)
    unsuitable = unsuitable_systems(changed, request.root)
    return [
        name
        for name, recipe in RECIPES.items()
        if name not in unsuitable and is_trainable(recipe, ViewSettings(**DEFAULT_VIEWS[recipe.view]), **kind)
    ]


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
    systems = [system for system in params["systems"].values() if isinstance(system, Mapping)]
    used = dict.fromkeys(view for system in systems if isinstance(view := system.get("view"), str))
    for section, name in (key.split(".")[:2] for key in changes if key.startswith("views.")):
        if name not in used:
            raise ParameterError(
                f"params.yaml: {section}.{shown(name)} is not used in this run: {nearest(name, list(used))}"
            )
    known = {**DEFAULT_VIEWS, **params["views"]}
    # Unknown view names are reported when the settings are read.
    params["views"] = {view: known[view] for view in used if view in known}
