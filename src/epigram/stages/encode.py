"""encode: convert the texts to flat arrays of token ids for one view.

python -m epigram.stages.encode VIEW VALIDATED AUGMENTED POS OUT
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage
from epigram.text.settings import EncodeSettings, read_view

PARAMS = ("views.{key}", "encode")


@handle_errors
def main() -> None:
    """Read the settings and encode one view."""
    from epigram.workflow.encode import encode_view

    name, *folders = arguments("VIEW", "VALIDATED", "AUGMENTED", "POS", "OUT")
    params = Params.read(PARAMS, key=name)
    encode_view(name, read_view(params), params.section("encode", EncodeSettings), *map(Path, folders))


if __name__ == "__main__":
    run_stage(main)
