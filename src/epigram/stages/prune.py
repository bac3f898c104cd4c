"""prune: drop the layers that the depth controller finds unnecessary, and fine-tune.

python -m epigram.stages.prune SYSTEM ENCODED MODELS OUT

OUT contains the final model of every seed (the trained one if no layer was dropped), pruning.json, and student.json if
the system has a teacher. Finished seeds are kept under .epigram/state until all seeds are finished.
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.evaluation.settings import AUTO, MetricSetting
from epigram.models.settings import System
from epigram.process.exits import handle_errors
from epigram.process.stage_process import STATE, arguments, run_stage
from epigram.pruning.settings import PruneSettings

PARAMS = ("metric", "seeds", "prune", "systems.{key}")


@handle_errors
def main() -> None:
    """Read the settings and prune the model of every seed."""
    from epigram.workflow.prune import prune_system

    name, *folders = arguments("SYSTEM", "ENCODED", "MODELS", "OUT")
    params = Params.read(PARAMS, key=name)
    settings = params.section("prune", PruneSettings).of(params.entry("systems", System))
    metric = params.value("metric", MetricSetting, AUTO)
    prune_system(name, settings, metric, params.seeds, *map(Path, folders), state=STATE / "prune" / name)


if __name__ == "__main__":
    run_stage(main)
