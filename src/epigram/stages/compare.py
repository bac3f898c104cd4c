"""compare: rank the systems of a run on the development set, choose one, and write the report.

python -m epigram.stages.compare VALIDATED EXAMINED EVALUATED ENSEMBLE PRUNED OUT

Writes OUT/summary.json, OUT/comparison.md, OUT/report.html with the files of suspected labels, near duplicates and the
learning curve, OUT/chosen/ (a copy of the chosen model), and the files that DVC compares between git revisions,
OUT/metrics.json and OUT/plots/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epigram.core.settings import Params
from epigram.evaluation.settings import CompareSettings, ReportSettings
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("systems", "compare", "report")


@handle_errors
def main() -> None:
    """Read the settings and write the comparison."""
    from epigram.workflow.compare import compare_systems

    folders = map(Path, arguments("VALIDATED", "EXAMINED", "EVALUATED", "ENSEMBLE", "PRUNED", "OUT"))
    params = Params.read(PARAMS)
    systems = params.section("systems", dict[str, Any])
    params.section("report", ReportSettings)  # `Params` has applied it
    compare_systems(systems, params.section("compare", CompareSettings), *folders)


if __name__ == "__main__":
    run_stage(main)
