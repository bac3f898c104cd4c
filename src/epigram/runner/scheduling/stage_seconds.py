"""Expected seconds of each stage: those of the last run on the same data set, or a rough default."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import read_json
from epigram.runner.dvc.graph import Graph
from epigram.runner.scheduling.planned_systems import PlannedSystem

MAX_RUNS = 20  # runs that are read, the latest ones
START = 2.0  # seconds of any stage, most of them for imports
TEXTS = 1_000  # training texts, of which nothing is known before the first run
# Training texts per second of an encoder on one core, from docs/systems.md.
RATES: Mapping[str, float] = {
    "char_bilstm": 180,
    "projected_bilstm": 390,
    "pretrained": 500,
    "transformer": 560,
    "universal_transformer": 560,
    "dpcnn": 870,
    "vdcnn": 930,
    "semantic_perceptron": 1_100,
}
OTHER_RATE, CHECKPOINT_RATE = 2_000.0, 60.0


def expected_seconds(graph: Graph, runs: Path, dataset: str, systems: Mapping[str, PlannedSystem]) -> dict[str, float]:
    """Return the seconds that each stage is expected to take; a stage that is up to date takes none.

    `runs` is the folder of the earlier runs. The order of the stages depends on the result, nothing else does.
    """
    seconds = dict.fromkeys(graph.stages, START)
    first: dict[str, str] = {}  # stage of each system, its training: the others of the system depend on it
    for stage in graph:
        first.setdefault(stage.name.partition("@")[2], stage.name)
    for system in first.keys() & systems.keys():
        seconds[first[system]] += training_seconds(systems[system])
    measured = measured_seconds(runs, dataset)
    return {name: 0.0 if name in graph.current else measured.get(name, seconds[name]) for name in graph.stages}


def measured_seconds(runs: Path, dataset: str) -> dict[str, float]:
    """Return the seconds of each stage in the latest run on `dataset` that executed it."""
    files = [file for file in runs.glob("*/summary.json") if not file.parent.is_symlink()]
    found: dict[str, float] = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)[:MAX_RUNS]:
        with suppress(EpigramError, OSError, LookupError, TypeError, AttributeError):  # damaged, or edited by the user
            run = read_json(file)
            if run["dataset"] == dataset:
                executed = {name: stage for name, stage in run["stages"].items() if stage["state"] == "Completed"}
                found = {name: float(stage["seconds"]) for name, stage in executed.items()} | found
    return found


def training_seconds(system: PlannedSystem) -> float:
    """Return the seconds of training a system on TEXTS texts, without the start of the stage."""
    if not system.recipe.has_encoder:
        return 0.0
    kind = str(system.recipe.encoder.get("kind"))
    starts = kind == "pretrained" and system.checkpoint is not None
    rate = CHECKPOINT_RATE if starts else RATES.get(kind, OTHER_RATE)
    return TEXTS * (system.config.epochs if system.recipe.by_gradient else 1) / rate
