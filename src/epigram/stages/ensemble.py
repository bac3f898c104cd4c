"""ensemble: combine the evaluated systems into one, by their predictions for the development set.

python -m epigram.stages.ensemble VALIDATED EVALUATED PRUNED OUT

OUT has ensemble.json (members and weights, or the reason why there is no ensemble), metrics.json and
predictions.safetensors as `evaluate` writes them, and a model folder for each seed. An ensemble's speed is the speed of
its members one after another; it is written outside OUT, to data/speed/ensemble.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epigram.core.settings import Params
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.process.exits import handle_errors
from epigram.process.stage_process import SPEED, arguments, run_stage

PARAMS = ("systems", "evaluate", "ensemble")


@handle_errors
def main() -> None:
    """Read the settings, select the members, and write the ensemble."""
    from epigram.workflow.ensemble import combine_systems

    folders = map(Path, arguments("VALIDATED", "EVALUATED", "PRUNED", "OUT"))
    params = Params.read(PARAMS)
    names, settings = list(params.section("systems", dict[str, Any])), params.section("ensemble", EnsembleSettings)
    combine_systems(names, settings, params.section("evaluate", EvaluateSettings), *folders, speed=SPEED)


if __name__ == "__main__":
    run_stage(main)
