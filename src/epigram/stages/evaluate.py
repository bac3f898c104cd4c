"""evaluate: score the final models; the only stage that reads the test set.

python -m epigram.stages.evaluate SYSTEM VALIDATED ENCODED PRUNED OUT

The measured speed varies from run to run, so it is written outside OUT, to data/speed/SYSTEM.json, with the hash of the
model's manifest. The hash shows which model was timed: when DVC restores OUT from its cache, the file is not updated.
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.evaluation.settings import AUTO, EvaluateSettings, MetricSetting
from epigram.process.exits import handle_errors
from epigram.process.stage_process import SPEED, arguments, run_stage

PARAMS = ("metric", "seeds", "evaluate")


@handle_errors
def main() -> None:
    """Read the settings, and evaluate the models of all seeds."""
    from epigram.workflow.evaluate import evaluate_models

    name, *folders = arguments("SYSTEM", "VALIDATED", "ENCODED", "PRUNED", "OUT")
    params = Params.read(PARAMS)
    settings, metric = params.section("evaluate", EvaluateSettings), params.value("metric", MetricSetting, AUTO)
    evaluate_models(name, settings, metric, params.seeds, *map(Path, folders), speed=SPEED)


if __name__ == "__main__":
    run_stage(main)
