"""examine: find suspected labels and near duplicates in train, and what more labels would do.

python -m epigram.stages.examine VALIDATED OUT

Writes OUT/quality.json, from which `compare` makes the section of the report and the files beside it.
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.evaluation.settings import ExamineSettings
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("examine",)


@handle_errors
def main() -> None:
    """Read the settings and write the findings."""
    from epigram.workflow.examine import examine_corpus

    validated, out = map(Path, arguments("VALIDATED", "OUT"))
    examine_corpus(Params.read(PARAMS).section("examine", ExamineSettings), validated, out)


if __name__ == "__main__":
    run_stage(main)
