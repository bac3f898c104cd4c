"""epigram retrain: retraining on new rows, and promotion of a better model to champion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epigram.cli.projects.project import find_flow
from epigram.core.errors import DataError, ParameterError
from epigram.process.display import echo, one_line

if TYPE_CHECKING:
    from epigram.runner.retraining.retraining import Retraining


def main(
    dataset: Annotated[
        str,
        typer.Option(
            help="Base data set: the name of a file in data/sources. Default: that of the champion, or of params.yaml."
        ),
    ] = "",
    rollback: Annotated[bool, typer.Option("--rollback", help="Restore the previous champion.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the champion and all earlier ones.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Restore the rows of the data set from its ledger; train nothing.")
    ] = False,
    forget: Annotated[
        str, typer.Option(help="Withdraw the rows of this accepted file, and list the models that learned from them.")
    ] = "",
) -> None:
    """Retrain on new rows; promote the new model if it beats the champion, otherwise print the reason.

    The section `retrain` of params.yaml defines where new rows arrive and what a challenger must achieve.

    Example: epigram retrain --show
    """
    flow, root = find_flow("retrain", "flows.retrain.retrain"), Path.cwd()
    from epigram.runner.champions import champion
    from epigram.runner.prefect.execution import call_flow
    from epigram.runner.runs import publish

    actions = {"--rollback": rollback, "--show": show, "--rebuild": rebuild, "--forget": forget}
    if len(chosen := [name for name, is_given in actions.items() if is_given]) > 1:
        raise ParameterError(f"{' and '.join(chosen)} cannot be combined; use one of them")
    if rollback:
        with champion.lock(root):
            echo(champion.rollback(root))
        publish.write_index(root / "runs")
    elif show:
        lines = [f"{each}\n  {one_line(each.verdict)}" for each in champion.history(root)]
        echo("\n".join(lines) or "no champion yet")
    elif rebuild or forget:
        from epigram.runner.retraining.retraining import restore_data, withdraw_file

        echo(withdraw_file(root, dataset or None, forget) if forget else restore_data(root, dataset or None))
    else:
        report(call_flow(flow, root, dataset or None))


def report(result: Retraining) -> None:
    """Print the result. Raises DataError with the files that were skipped."""
    echo(result.ingestion)
    echo(result.outcome)
    echo(f"{result.champion}\nmodel:  runs/champion/model")
    if result.ingestion.skipped:
        raise DataError("\n".join(result.ingestion.skipped))
