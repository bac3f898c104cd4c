"""epigram drift: drift of new texts from the champion's texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epigram.cli.projects.project import find_flow
from epigram.core.errors import InputMissingError
from epigram.process.display import echo


def main(
    file: Annotated[
        Path | None, typer.Option(help="File with texts to measure. Default: the files in retrain.incoming.")
    ] = None,
) -> None:
    """Measure the drift of new texts from the champion's texts; retrain if they have drifted.

    A retraining needs labelled rows in the folder retrain.incoming of params.yaml, and no --file.

    Example: epigram drift --file texts.txt
    """
    flow, root = find_flow("drift", "flows.drift.drift_check"), Path.cwd()
    from epigram.runner.prefect.execution import call_flow
    from epigram.runner.retraining.drift import NO_CHAMPION, markdown_table

    if file is not None and not file.is_file():
        raise InputMissingError(f"invalid --file: {file} does not exist; expected a file with texts")
    result = call_flow(flow, root, file)
    if result is None:
        raise InputMissingError(NO_CHAMPION)
    if result.measures:
        echo(markdown_table(result))
    echo(result)
