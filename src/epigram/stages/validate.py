"""validate: check the raw corpus and split it.

python -m epigram.stages.validate RAW_DIR OUT_DIR
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.settings import AUTO, MetricSetting
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("metric", "validate")


@handle_errors
def main() -> None:
    """Read the settings and write the three splits, corpus.json and the report to OUT_DIR."""
    from epigram.workflow.validate import validate_corpus

    raw, out = map(Path, arguments("RAW_DIR", "OUT_DIR"))
    params = Params.read(PARAMS)
    settings, metric = params.section("validate", ValidateSettings), params.value("metric", MetricSetting, AUTO)
    validate_corpus(settings, metric, raw, out)


if __name__ == "__main__":
    run_stage(main)
