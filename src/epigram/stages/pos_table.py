"""pos_table: write the parts of speech and the weight of every character and frequent word.

python -m epigram.stages.pos_table VALIDATED VERSIONS OUT
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage
from epigram.text.settings import PosTableSettings

PARAMS = ("pos_table",)


@handle_errors
def main() -> None:
    """Read the settings and write the table."""
    from epigram.workflow.pos_table import write_pos_table

    validated, versions, out = map(Path, arguments("VALIDATED", "VERSIONS", "OUT"))
    write_pos_table(Params.read(PARAMS).section("pos_table", PosTableSettings), validated, versions, out)


if __name__ == "__main__":
    run_stage(main)
