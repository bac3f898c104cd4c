"""Number of threads of each system of a plan, so that its replay on a machine with other cores trains the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from epigram.core.config_types import validate_as
from epigram.models.settings import System
from epigram.runner.scheduling.planned_systems import PlannedSystem
from epigram.workflow.search.plan import RunPlan


def with_threads(plan: RunPlan, folds: int) -> RunPlan:
    """Return the plan with `train.threads` of each system that it affects, instead of `auto`, for this machine.

    `folds` is the number of folds of train.
    """
    systems = {name: _with_threads(name, system, plan, folds) for name, system in plan.systems.items()}
    return replace(plan, systems=systems)


def _with_threads(name: str, settings: Mapping[str, Any], plan: RunPlan, folds: int) -> dict[str, Any]:
    system = validate_as(System, settings)
    planned = PlannedSystem.of(name, system, plan.train or {}, plan.views[system.view].get("checkpoint"))
    used = planned.recipe.train_settings
    if planned.config.threads != "auto" or (used is not None and "threads" not in used):
        return dict(settings)
    return dict(settings, train={**system.train, "threads": planned.resolved(folds=folds).threads})
