"""augment: write the prompt that is put around every text in views with `prompt: true`.

python -m epigram.stages.augment VALIDATED OUT
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage
from epigram.text.settings import AugmentSettings

PARAMS = ("augment",)


@handle_errors
def main() -> None:
    """Read the settings and write the prompt."""
    from epigram.workflow.augment import write_prompt

    validated, out = map(Path, arguments("VALIDATED", "OUT"))
    write_prompt(Params.read(PARAMS).section("augment", AugmentSettings), validated, out)


if __name__ == "__main__":
    run_stage(main)
