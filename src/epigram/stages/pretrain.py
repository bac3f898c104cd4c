"""pretrain: train a masked language model on the texts of a view, if params.yaml requests it.

python -m epigram.stages.pretrain VIEW ENCODED OUT

If the view has no `pretrain:` section, about.json records 0 steps, and torch is not imported.
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import Params
from epigram.process.exits import handle_errors
from epigram.process.stage_process import STATE, arguments, run_stage
from epigram.text.settings import read_view

PARAMS = ("views.{key}",)


@handle_errors
def main() -> None:
    """Read the settings and pretrain, or record that the view has no pretraining."""
    from epigram.workflow.pretrain import pretrain_view

    name, encoded, out = arguments("VIEW", "ENCODED", "OUT")
    settings = read_view(Params.read(PARAMS, key=name)).pretrain
    pretrain_view(name, settings, Path(encoded), Path(out), state=STATE / "pretrain" / name)


if __name__ == "__main__":
    run_stage(main)
