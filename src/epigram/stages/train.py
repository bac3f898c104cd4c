"""train: train one model of a system per seed.

python -m epigram.stages.train SYSTEM ENCODED PRETRAINED OUT

With `train.processes`, or under torchrun, several processes train in parallel, and the first one writes. Finished seeds
and checkpoints are kept under .epigram/state until all seeds are finished, so that an interrupted run resumes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from epigram.core.settings import Params
from epigram.evaluation.settings import AUTO, MetricSetting
from epigram.models.settings import SharedTraining, System
from epigram.process.exits import handle_errors
from epigram.process.stage_process import STATE, arguments, run_stage
from epigram.process.startup import no_collection

PARAMS = ("metric", "seeds", "train", "systems.{key}")


@handle_errors
def main() -> None:
    """Read the settings and train every seed, in several processes if the settings say so."""
    with no_collection():
        from epigram.training.distributed.launch import launch
        from epigram.training.distributed.parallel import process_group
        from epigram.training.distributed.resources import launched_processes
        from epigram.workflow.train import checked_setup, train_system

    name, encoded, pretrained, out = arguments("SYSTEM", "ENCODED", "PRETRAINED", "OUT")
    params = Params.read(PARAMS, key=name)
    seeds, shared, system = params.seeds, params.value("train", SharedTraining, {}), params.entry("systems", System)
    metric = params.value("metric", MetricSetting, AUTO)
    setup, warnings = checked_setup(name, system, shared, metric, Path(encoded), Path(pretrained))
    if int(setup.config.processes) > launched_processes():
        launch("epigram.stages.train", sys.argv[1:], int(setup.config.processes))
        return
    with process_group():
        train_system(system, setup, seeds, Path(out), warnings=warnings, state=STATE / "train" / name)


if __name__ == "__main__":
    run_stage(main)
