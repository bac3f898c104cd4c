"""Systems of params.yaml for the first data set of a user: the best one by experience, and the linear SVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from epigram.checkpoints.folders import encoder_command, installed_encoder
from epigram.core.settings import read_params
from epigram.data.sources.source import Source
from epigram.evaluation.comparison.formats import join_names
from epigram.fitting.experience import nearest
from epigram.fitting.systems import ENCODED, Candidate, Facts, baseline, by_experience, views
from epigram.runner.project import template
from epigram.runner.workspace.settings import Params, edited

LANGUAGES = {"en": "English", "zh": "Chinese"}
RULES = "docs/systems.md#search"


def write_first_systems(params: Path, source: Source, rows: int) -> list[str]:
    """Write the systems for a data set of so many training rows into the file `params`; return sentences for the user.

    They take the place of the systems of a new project. Where the file names another data set or has systems of the
    user, and where only words have labels, it stays as it is.
    """
    known = read_params(params)
    if known.get("dataset") != source.name or source.task not in ("single", "multi"):
        return []
    facts = Facts(
        language=source.language,
        train=rows,
        dev=0,
        test=0,
        folds=0,
        checkpoint=installed_encoder(source.language),
        classes=len(source.labels),
    )
    hint = [] if facts.checkpoint else [_hint(source)]
    if not _is_unchanged(known, facts):
        return hint
    chosen = _chosen(facts)
    systems = {each.name: each.settings | {"view": _view(known, each, facts)} for each in chosen}
    if systems == known["systems"]:
        return hint
    why = f"{chosen[-1].name}: {_reason(chosen[-1], facts)}"
    with edited(params, {("systems", chosen[-1].name): why} if facts.checkpoint else {}) as values:
        values["systems"], values["views"] = systems, known["views"]
    names = join_names([each.name for each in chosen])
    return [f"{params.name}: the systems are now {names} ({why}); runs and retrainings train them", *hint]


def _chosen(facts: Facts) -> list[Candidate]:
    """Return the linear SVM and the best system by experience, which may be the linear SVM too."""
    first = by_experience(facts)[0]
    return list({each.name: each for each in (baseline(), first)}.values())


def _is_unchanged(known: Params, facts: Facts) -> bool:
    """Return whether all systems are systems of a new project, or were written for these data without an encoder."""
    own = yaml.safe_load(template.contents()["params.yaml"])
    systems, used = known.get("systems"), known.get("views")
    if not isinstance(systems, dict) or not isinstance(used, dict) or used.get(ENCODED):
        return False
    plain = _chosen(replace(facts, checkpoint=None))
    written = [{each.name: each.settings | {"view": _view(dict(known), each, facts)}} for each in plain]
    allowed = [*({name: value} for name, value in own["systems"].items()), *written]
    return all({name: value} in allowed for name, value in systems.items())


def _view(values: Params, candidate: Candidate, facts: Facts) -> str:
    """Return the name of the view in `values` that the candidate reads; add the view if it is not there."""
    wanted = views(facts)[candidate.system.view]
    for name, view in values["views"].items():
        if view == wanted:
            return str(name)
    name = candidate.system.view
    if name in values["views"]:
        name = f"{name}_{facts.language}"
    values["views"] = {**values["views"], name: wanted}
    return name


def _reason(candidate: Candidate, facts: Facts) -> str:
    """Return why the candidate is the first one."""
    found, language = nearest(facts.language, facts.train, facts.classes), LANGUAGES[facts.language]
    if found is None or candidate.name not in found.accuracy:
        return f"first by the rules of {RULES} at {facts.train:,} {language} rows"
    return f"best of {len(found.accuracy)} by experience at {found.rows:,} {language} rows (docs/accuracy.md)"


def _hint(source: Source) -> str:
    command = encoder_command(source.language)
    return f"with few labelled texts, a pretrained encoder helps: {command}; then add the file again with --replace"
