"""GPUs and slots of the stages of a run, which depend on the folds of train: trainings on folds have one process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import read_json
from epigram.runner.dvc.graph import Graph
from epigram.runner.scheduling.gpus import gpus_by_stage
from epigram.runner.scheduling.planned_systems import PlannedSystem
from epigram.runner.scheduling.slots import Slots, slots_by_system


def set_needs(slots: Slots, stages: Graph, systems: Mapping[str, PlannedSystem], gpus: int, validated: Path) -> None:
    """Set what each stage needs of `slots`, on a machine with so many `gpus`, by the folds of the `validated` data.

    Without such data, train has no folds. No training starts before the stage `validate` has ended.
    """
    folds = _folds(validated / "corpus.json")
    slots.gpus.needed = gpus_by_stage(stages, systems, gpus, folds)
    slots.needed = slots_by_system(systems, gpus, folds)


def _folds(corpus: Path) -> int:
    """Return the folds of train, read without Polars, which the process of a flow does not import."""
    with suppress(EpigramError, LookupError, TypeError, ValueError):  # missing or damaged, which the stages report
        return int(read_json(corpus)["folds"])
    return 0
